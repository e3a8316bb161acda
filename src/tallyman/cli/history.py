"""The history of a project: what there is, what ran, and who did what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tallyman.cli.options import AsJson, Partition, ProjectFolder, RunName, opened
from tallyman.cli.output import as_json, err, next_steps, out, published, short, table, tally
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.report import run_facts
from tallyman.domain.history.run import AssetResult
from tallyman.domain.version.dataset import Dataset
from tallyman.engine.files.past_run import Run
from tallyman.pages.report import duration
from tallyman.query.report.asset import keys_uncounted
from tallyman.query.report.run import KnownRun, bound_to, lineage_ids, seal_facts, told_of
from tallyman.registry.audit import Audit


def ls(
    selection: Annotated[
        list[str] | None,
        typer.Argument(help="Assets: x, +x, x+, tag:t, state:modified. Default: all."),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List sources and assets in the order they run, with the state of their newest result."""
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
    """What readers see: the dataset, by its own name, and its version."""
    if dataset is None or dataset.current_version is None:
        return {"dataset": dataset.name if dataset else None, "version": None}
    return {"dataset": dataset.name, "version": f"v{dataset.ordinal}"}


def _stale(rows: list[dict[str, Any]]) -> str | None:
    """Made from something that was replaced since."""
    if not rows:
        return None
    causes = ", ".join(sorted({row["cause"] for row in rows}))
    parts = [row["partition"] for row in rows if row["partition"]]
    return f"{len(parts)} partitions: {causes} changed" if parts else f"{causes} changed"


def _state(rows: list[Materialization]) -> str:
    """`never run`, one status, or for partitions how many are in each."""
    if not rows:
        return "never run"
    if len(rows) == 1 and rows[0].target.partition is None:
        return "success" if rows[0].status.good else rows[0].status.value
    counts: dict[str, int] = {}
    for row in rows:
        status = "success" if row.status.good else row.status.value
        counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def runs(
    project: ProjectFolder = None,
    limit: Annotated[int, typer.Option(help="How many, newest first.")] = 20,
    json_output: AsJson = False,
) -> None:
    """List runs, newest first; an interrupted one can be resumed."""
    rows = [
        {
            "run_id": run.name,
            "run": short(run.name),
            "started_at": f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "status": run.status.value,
            "actor": run.actor,
            "folder": run.folder,
            "assets": ", ".join(run.params.assets),
        }
        for run in opened(project).runs(limit=limit)
    ]
    if json_output:
        as_json(rows)
    elif rows:
        table(rows, ("run", "started_at", "status", "actor", "folder", "assets"))
    else:
        out.print("no runs yet; next:  tallyman run")


def show(
    run: RunName = "latest", project: ProjectFolder = None, json_output: AsJson = False
) -> None:
    """What a run did: the tally of each asset, rejections by rule, timings, what proves it.

    `tallyman report RUN` tells more, `tallyman report RUN --html` on a page to keep.
    """
    found = opened(project)
    record = found.find_run(run)
    known, folder = found.known(record), found.folder_of(record)
    result, rows = known.result, known.rows
    seal = seal_facts(folder, known)
    if json_output:
        as_json(_shown(known, folder, seal))
        return
    out.print(
        f"run {record.name}   {record.status.value}   {record.started_at:%Y-%m-%d %H:%M:%S} UTC"
        f"   by {record.actor}",
        markup=False,
    )
    if replayed := record.params.options.replay_of:
        out.print(f"a replay of rejections of run {replayed}", markup=False)
    for made, row in zip(result.assets, rows, strict=True):
        _show_asset(made, row)
    for target in keys_uncounted(folder.places()) if folder else ():
        counts = f"`tallyman verify {record.name} --exact` counts them"
        out.print(f"{target}: repeated keys not counted; {counts}", markup=False)
    if result.commit:
        out.print(published(result.commit), markup=False)
    if seal:
        signed = f"   signed by {seal['signature']['key']}" if seal["signature"] else ""
        out.print(f"seal {seal['ordinal']}   {seal['hash']}{signed}", markup=False)
    for line in next_steps(result):
        out.print(line, markup=False)


def _shown(known: KnownRun, folder: Run | None, seal: Mapping[str, Any] | None) -> dict[str, Any]:
    record, told = known.record, told_of(folder, known)
    assets = [
        facts | _with_history(row) for facts, row in zip(told["assets"], known.rows, strict=True)
    ]
    return known.result.to_json() | {
        "actor": record.actor,
        "executor_node": record.executor_node,
        "started_at": record.started_at,
        "completed_at": record.completed_at,
        "duration_ms": told.get("duration_ms"),
        "replay_of": record.params.options.replay_of,
        **run_facts(assets),
        "versions": told["versions"],
        "timings": told["timings"],
        "lineage": lineage_ids(folder, known),
        "binding": bound_to(folder),
        "seal": seal,
        "assets": assets,
    }


def _with_history(row: Materialization) -> dict[str, object]:
    return {
        "last_completed_operation": row.last_completed_operation,
        "definition_hash": row.definition_hash,
        "dependency_hash": row.dependency_hash,
        "content_digest": row.content_digest,
        "executor_node": row.executor_node,
        "approval": row.metadata.get("approval"),
    }


def _show_asset(made: AssetResult, row: Materialization) -> None:
    out.print(tally(made), markup=False)
    if made.error:
        err.print(f"  {made.error['message']}", style="red", markup=False)
    if not made.status.good and row.last_completed_operation:
        out.print(f"    last completed step: {row.last_completed_operation}", markup=False)
    for kind, count in sorted(row.metadata.get("rejections_by_type", {}).items()):
        out.print(f"    {count:>10,}  {kind}", markup=False)
    laps = row.metadata.get("timings", ())
    phases = [f"{lap['phase']} {duration(lap['ms'])}" for lap in laps if "phase" in lap]
    if phases:
        out.print(f"    {', '.join(phases)}", markup=False)


def invalidate(
    asset: Annotated[str, typer.Argument(help="The asset whose result no longer counts.")],
    partition: Partition = None,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also everything that was made from it.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Declare results invalid: the next run makes them anew. No file is touched."""
    count = opened(project).invalidate(asset, partition=partition, cascade=cascade)
    if json_output:
        as_json({"invalidated": count})
    else:
        out.print(f"{count} result{'s' if count != 1 else ''} invalidated", markup=False)


def audit(
    run: Annotated[str | None, typer.Argument(help="Only this run.")] = None,
    limit: Annotated[int, typer.Option(help="How many, newest first.")] = 50,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Who did what when, newest first. These rows cannot be changed."""
    found = opened(project)
    only = found.find_run(run).id if run else None
    rows = found.database.durably(lambda tx: Audit(tx).list(only, limit))
    if json_output:
        as_json(rows)
        return
    for row in rows:
        row["at"] = f"{row['at']:%Y-%m-%d %H:%M:%S}"
    table(rows, ("at", "actor_id", "event_type", "resource", "details"))


def register(app: typer.Typer) -> None:
    for command in (ls, runs, show, invalidate, audit):
        app.command()(command)
