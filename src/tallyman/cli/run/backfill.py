"""`tallyman backfill`: run many partitions in one run."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import (
    AsJson,
    Force,
    Jobs,
    Master,
    ProjectFolder,
    Selection,
    SparkConf,
    opened,
)
from tallyman.cli.terminal.output import as_json, out
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import show_result


def backfill(
    selection: Selection = None,
    first: Annotated[str | None, typer.Option("--from", help="The first partition to run.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last partition to run.")] = None,
    jobs: Jobs = 1,
    on_error: Annotated[
        str, typer.Option(help="If a partition fails: continue with the others, or halt.")
    ] = "continue",
    force: Force = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Run many partitions in one run.

    Partitions whose inputs and definition did not change are skipped.

    Example:  tallyman backfill +daily_revenue --from 2026-01-01 --to 2026-01-31 --jobs 4
    """
    found = opened(project, master, spark_conf)
    result, counts = supervised(
        found,
        json_output,
        lambda progress: found.backfill(
            selection or [],
            first=first,
            last=last,
            jobs=jobs,
            on_error=on_error,
            force=force,
            listen=progress,
        ),
    )
    if json_output:
        as_json({"run_id": result.run_id, **counts})
        raise typer.Exit(result.exit_code)
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    out.print(f"partitions: {listed}", markup=False)
    show_result(result, json_output)


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(backfill)
