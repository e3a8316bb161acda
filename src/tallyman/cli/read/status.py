"""`tallyman status`: the newest result of one asset."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, short, table
from tallyman.domain.history.materialization import Materialization
from tallyman.pages.text import duration
from tallyman.project import Project


def status(
    asset: Annotated[str, typer.Argument(help="The asset.")],
    partition: Annotated[
        str | None, typer.Argument(help="One partition. Default: all of them.")
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Show the newest result of an asset: state, run, version, error.

    Exit 0 if every listed result is good, 1 if one failed, waits or was never made: a script can
    ask before it goes on.
    """
    found = opened(project)
    target = found.target(asset, partition)
    newest = [row for row in found.latest() if row.target.asset == asset]
    if partition is not None:
        newest = [row for row in newest if row.target == target]
    rows = [_facts(found, row) for row in newest]
    version = next((d for d in found.datasets() if d.producer == asset), None)
    causes = {str(row["cause"]) for row in found.stale() if row["producer"] == asset}
    stale = ", ".join(sorted(causes))
    dataset = version.name if version else None
    ordinal = version.ordinal if version and version.current_version else None
    notes = dict(found.pipeline.assets[asset].meta)
    tasks = found.tasks.backlog(asset)
    good = bool(rows) and all(row.status.good for row in newest)
    if json_output:
        named = {"asset": asset, "dataset": dataset, "version": ordinal}
        rest = {"stale": sorted(causes), "tasks": tasks.to_json(), "results": rows}
        as_json({**named, "meta": notes, **rest})
        raise typer.Exit(0 if good else 1)
    current = f"dataset {dataset} v{ordinal}" if ordinal else "no version"
    out.print(f"{asset}   {current}")
    for name, value in notes.items():
        out.print(f"{name}: {value}")
    if stale:
        out.print(f"stale: {stale} changed since")
    if not tasks.empty or tasks.failed:
        out.print(f"tasks: {tasks}")
    if rows:
        names = ["status", "run", "ended", "took", "attempt", "error"]
        many = any(row["partition"] for row in rows)
        table(rows, ["partition", *names] if many else names)
    else:
        out.print(f"never run; make it:  tallyman run {asset}")
    raise typer.Exit(0 if good else 1)


def _facts(found: Project, row: Materialization) -> dict[str, object]:
    run = found.runs.by_id(row.run_id).name
    declared = found.pipeline.assets[row.target.asset].partitioned_by
    key = row.target.partition
    return {
        "partition": declared.text(key) if declared and key is not None else None,
        "status": row.status.value,
        "run_id": run,
        "run": short(run),
        "attempt": row.attempt,
        "ended": f"{row.completed_at:%Y-%m-%dT%H:%M:%SZ}" if row.completed_at else None,
        "duration_ms": row.duration_ms,
        "took": duration(row.duration_ms) if row.duration_ms is not None else None,
        "error": (row.error_message or "").split("\n")[0] or None,
    }
