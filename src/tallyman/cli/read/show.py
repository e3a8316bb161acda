"""`tallyman show`: show one run on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.cli.terminal.options import AsJson, ProjectFolder, RunName, opened
from tallyman.cli.terminal.output import as_json, err, next_steps, out, published, tally
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.report import run_facts
from tallyman.domain.history.run import AssetResult
from tallyman.engine.files.past_run import Run
from tallyman.pages.text import duration
from tallyman.query.report.asset import keys_uncounted
from tallyman.query.report.run import KnownRun, bound_to, known_facts, lineage_ids, seal_facts


def show(
    run: RunName = "latest", project: ProjectFolder = None, json_output: AsJson = False
) -> None:
    """Show one run: tallies, rejections, timings, versions, seal.

    `tallyman report RUN` shows more. `tallyman report RUN --html` writes a page to keep.
    """
    found = opened(project)
    record = found.find_run(run)
    known, folder = found.runs.known(record), found.runs.folder_of(record)
    result, rows = known.result, known.rows
    seal = seal_facts(folder, known)
    if json_output:
        as_json(_shown(known, folder, seal))
        return
    out.print(
        f"run {record.name}   {record.status.value}   {record.started_at:%Y-%m-%d %H:%M:%S} UTC"
        f"   by {record.actor}"
    )
    if replayed := record.params.options.replay_of:
        out.print(f"a replay of rejections of run {replayed}")
    for name in record.params.options.accept_shrink:
        out.print(f"accepted by {record.actor}: fewer records of {name}")
    for name, value in record.params.meta.items():
        out.print(f"{name}: {value}")
    for made, row in zip(result.assets, rows, strict=True):
        _show_asset(made, row)
    for target in keys_uncounted(folder.places()) if folder else ():
        counts = f"`tallyman verify {record.name} --exact` counts them"
        out.print(f"{target}: repeated keys not counted; {counts}")
    if result.commit:
        out.print(published(result.commit))
    if seal:
        signed = f"   signed by {seal['signature']['key']}" if seal["signature"] else ""
        out.print(f"seal {seal['ordinal']}   {seal['hash']}{signed}")
    for line in next_steps(result):
        out.print(line)


def _shown(known: KnownRun, folder: Run | None, seal: Mapping[str, Any] | None) -> dict[str, Any]:
    record, stored = known.record, known_facts(folder, known)
    assets = [
        facts | _with_history(row) for facts, row in zip(stored["assets"], known.rows, strict=True)
    ]
    return known.result.to_json() | {
        "actor": record.actor,
        "executor_node": record.executor_node,
        "started_at": record.started_at,
        "completed_at": record.completed_at,
        "duration_ms": stored.get("duration_ms"),
        "replay_of": record.params.options.replay_of,
        "accept_shrink": list(record.params.options.accept_shrink),
        "meta": dict(record.params.meta),
        **run_facts(assets),
        "versions": stored["versions"],
        "timings": stored["timings"],
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
    out.print(tally(made))
    for name, value in row.metadata.get("meta", {}).items():
        out.print(f"    {name}: {value}")
    if made.error:
        err.print(f"  {made.error['message']}", style="red")
    if not made.status.good and row.last_completed_operation:
        out.print(f"    last completed step: {row.last_completed_operation}")
    for one in made.references:
        out.print(f"    {one}")
    for warning in made.input_warnings:
        out.print(f"    warning: {warning}")
    for kind, count in sorted(row.metadata.get("rejections_by_type", {}).items()):
        out.print(f"    {count:>10,}  {kind}")
    laps = row.metadata.get("timings", ())
    phases = [f"{lap['phase']} {duration(lap['ms'])}" for lap in laps if "phase" in lap]
    if phases:
        out.print(f"    {', '.join(phases)}")
