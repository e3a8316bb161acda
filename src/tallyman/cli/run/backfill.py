"""`tallyman backfill`: run many partitions in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyman.cli.terminal.options import (
    AcceptShrink,
    AsJson,
    Force,
    Jobs,
    Master,
    Meta,
    ProjectFolder,
    Selection,
    SparkConf,
    opened_to_make,
    pairs,
)
from tallyman.cli.terminal.output import as_json, out
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import show_result
from tallyman.errors import UsageError


def backfill(
    selection: Selection = None,
    first: Annotated[str | None, typer.Option("--from", help="The first partition to run.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last partition to run.")] = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            "--partitions",
            help="Run these instead: a list with commas, or @FILE with one on each line.",
        ),
    ] = None,
    jobs: Jobs = 1,
    on_error: Annotated[
        str, typer.Option(help="If a partition fails: continue with the others, or halt.")
    ] = "continue",
    force: Force = False,
    accept_shrink: AcceptShrink = None,
    meta: Meta = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Run many partitions in one run.

    Partitions whose inputs and definition did not change are skipped.

    Example:  tallyman backfill +daily_revenue --from 2026-01-01 --to 2026-01-31 --jobs 4
    """
    found = opened_to_make(project, master, spark_conf)
    result, counts = supervised(
        found,
        json_output,
        lambda progress: found.backfill(
            selection or [],
            first=first,
            last=last,
            partitions=_listed(partitions),
            jobs=jobs,
            on_error=on_error,
            force=force,
            accept_shrink=accept_shrink or [],
            meta=pairs(meta or [], "--meta"),
            listen=progress,
        ),
    )
    if json_output:
        as_json({"run_id": result.run_id, **counts})
        raise typer.Exit(result.exit_code)
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    out.print(f"partitions: {listed}")
    show_result(result, json_output)


def _listed(given: str | None) -> list[str]:
    """Read partitions from the option, or from the file that it names."""
    if given is None:
        return []
    if not given.startswith("@"):
        return [each.strip() for each in given.split(",") if each.strip()]
    try:
        lines = Path(given[1:]).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--partitions: {given[1:]} cannot be read: {error}") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise UsageError(f"--partitions: {given[1:]} lists no partition")
    return found
