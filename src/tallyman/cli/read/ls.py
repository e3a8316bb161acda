"""`tallyman ls`: list sources, tables and assets with the state of their newest result."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened, pairs
from tallyman.cli.terminal.output import as_json, table
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.pipeline.trigger import MANUAL, Trigger
from tallyman.domain.version.dataset import Dataset
from tallyman.errors import UsageError


def ls(
    selection: Annotated[
        list[str] | None,
        typer.Argument(help="List only these: x, +x, x+, tag:t, state:modified. Default: all."),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", help="Only assets with this note, name=value; repeatable."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="The datasets of all pipelines of the organisation in this database: producer, "
            "consumers, backend and location.",
        ),
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List sources, tables and assets with their state and version.

    Assets are listed in the order in which they run.
    """
    found = opened(project)
    if everything:
        if selection or meta:
            raise UsageError("--all lists every pipeline; it takes no selection and no --meta")
        _show_all(found.datasets.of_all_pipelines(), json_output)
        return
    pipeline = found.pipeline
    notes = pairs(meta or [], "--meta")
    chosen = [
        name
        for name in found.select(selection or [])
        if notes.items() <= pipeline.assets[name].meta.items()
    ]
    listed = not selection and not notes
    latest: dict[str, list[Materialization]] = {}
    for row in found.latest():
        latest.setdefault(row.target.asset, []).append(row)
    datasets = {dataset.producer: dataset for dataset in found.datasets()}
    stale = found.stale()
    read = {name for asset in chosen for name in pipeline.assets[asset].inputs}
    rows: list[dict[str, object]] = [
        {"name": s.name, "kind": "source", "key": ", ".join(s.key), "inputs": s.path}
        for s in pipeline.sources.values()
        if s.name in read or listed
    ]
    rows += [
        {"name": t.name, "kind": "table", "key": ", ".join(t.key), **_version(datasets.get(t.name))}
        for t in pipeline.tables.values()
        if t.name in read or listed
    ]
    shared = found.datasets.shared()
    rows += [
        {"name": s.name, "kind": "dataset", "inputs": s.dataset, **_version(shared[s.name])}
        for s in pipeline.shared.values()
        if s.name in read or listed
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
                "trigger": _trigger(asset.trigger) if json_output else str(asset.trigger),
                "meta": dict(asset.meta),
            }
        )
    if json_output:
        as_json(rows)
        return
    names = ["name", "kind", "key", "inputs", "state", "version"]
    if any(row.get("trigger", MANUAL) != MANUAL for row in rows):
        names.append("trigger")
    table(rows, [*names, "stale"] if any(row.get("stale") for row in rows) else names)


def _trigger(trigger: Trigger) -> str | dict[str, str]:
    return trigger if isinstance(trigger, str) else asdict(trigger)


def _show_all(rows: list[dict[str, Any]], json_output: bool) -> None:
    if json_output:
        as_json(rows)
        return
    shown = [
        row
        | {
            "producer": f"{row['pipeline']}.{row['producer']}",
            "version": f"v{row['version']}" if row["version"] else None,
            "consumers": ", ".join(row["consumers"]),
            "location": PurePath(row["location"]) if row["location"] else None,
        }
        for row in rows
    ]
    table(shown, ["dataset", "producer", "version", "rows", "consumers", "backend", "location"])


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
