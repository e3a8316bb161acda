"""`tallyman ls`: list sources, tables and assets with the state of their newest result."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, table
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.version.dataset import Dataset


def ls(
    selection: Annotated[
        list[str] | None,
        typer.Argument(help="List only these: x, +x, x+, tag:t, state:modified. Default: all."),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List sources, tables and assets with their state and version.

    Assets are listed in the order in which they run.
    """
    found = opened(project)
    pipeline = found.pipeline
    chosen = found.select(selection or [])
    latest: dict[str, list[Materialization]] = {}
    for row in found.latest():
        latest.setdefault(row.target.asset, []).append(row)
    datasets = {dataset.producer: dataset for dataset in found.datasets()}
    stale = found.stale()
    read = {name for asset in chosen for name in pipeline.assets[asset].inputs}
    rows: list[dict[str, object]] = [
        {"name": s.name, "kind": "source", "key": ", ".join(s.key), "inputs": s.path}
        for s in pipeline.sources.values()
        if s.name in read or not selection
    ]
    rows += [
        {"name": t.name, "kind": "table", "key": ", ".join(t.key), **_version(datasets.get(t.name))}
        for t in pipeline.tables.values()
        if t.name in read or not selection
    ]
    for name in chosen:
        asset = pipeline.assets[name]
        rows.append(
            {
                "name": name,
                "kind": "asset",
                "key": ", ".join(asset.key),
                "inputs": ", ".join(asset.inputs),
                "state": _state(latest.get(name, [])),
                "stale": _stale([row for row in stale if row["producer"] == name]),
                **_version(datasets.get(name)),
            }
        )
    if json_output:
        as_json(rows)
        return
    names = ["name", "kind", "key", "inputs", "state", "version"]
    table(rows, [*names, "stale"] if any(row.get("stale") for row in rows) else names)


def _version(dataset: Dataset | None) -> dict[str, object]:
    """Return the dataset's name and the version that readers see."""
    if dataset is None or dataset.current_version is None:
        return {"dataset": dataset.name if dataset else None, "version": None}
    return {"dataset": dataset.name, "version": f"v{dataset.ordinal}"}


def _stale(rows: list[dict[str, Any]]) -> str | None:
    """Name the inputs that were replaced since the result was made."""
    if not rows:
        return None
    causes = ", ".join(sorted({row["cause"] for row in rows}))
    partitions = [row["partition"] for row in rows if row["partition"]]
    return f"{len(partitions)} partitions: {causes} changed" if partitions else f"{causes} changed"


def _state(rows: list[Materialization]) -> str:
    """Return `never run`, a status, or for a partitioned asset the number of partitions in each
    status."""
    if not rows:
        return "never run"
    if len(rows) == 1 and rows[0].target.partition is None:
        return "success" if rows[0].status.good else rows[0].status.value
    counts: dict[str, int] = {}
    for row in rows:
        status = "success" if row.status.good else row.status.value
        counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(ls)
