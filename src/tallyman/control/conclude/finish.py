"""The result of a run, and its report, from the registry's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tallyman import faults
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.report import run_facts, target_facts, versions_of
from tallyman.domain.history.run import AssetResult, RunIdentity, RunResult, Status, run_status
from tallyman.engine.files.run_folder import LEDGER, REPORT, SEAL, RunFolder
from tallyman.faults import Point

ENDS = ("lineage/run_complete.json", "lineage/run_fail.json")


def result_of(row: Materialization) -> AssetResult:
    """Build a target's result from its registry row."""
    if row.status is Status.PENDING:
        error = {"code": "not_run", "message": "an input did not succeed, or the run ended first"}
        return AssetResult.of(row.target, row.status, error=error)
    if row.status is Status.RUNNING:
        return AssetResult.of(row.target, row.status, attempt=row.attempt)
    if "status" not in row.metadata:
        error = {"code": "interrupted", "message": row.error_message or "it was interrupted"}
        return AssetResult.of(row.target, row.status, error=error)
    found = AssetResult.of_json(row.metadata)
    return found if found.status is Status.HALTED else found.with_status(row.status)


def result(run: RunRecord, rows: Iterable[Materialization], *, canceled: bool = False) -> RunResult:
    """Return how the run ended or, while it is running, how it ends now. A cancel that came after
    everything was done has no effect."""
    results, status = tuple(map(result_of, rows)), run.status
    if status is Status.RUNNING:
        status = run_status({result.status for result in results})
        if canceled and status is not Status.SUCCESS:
            status = Status.CANCELED
    return RunResult(run_id=run.name, status=status, folder=run.folder, assets=results)


def set_aside(folder: RunFolder, names: Iterable[str] = (LEDGER, REPORT, SEAL)) -> None:
    for name in names:
        folder.set_aside(name, 1)


def write(
    folder: RunFolder,
    run: RunIdentity,
    result: RunResult,
    rows: list[Materialization],
    timings: Sequence[Mapping[str, Any]] = (),
    *,
    keep_attempts: bool = False,
) -> None:
    """Write ledger.json and the report; those of an earlier end of the run are moved to
    `attempts/`. `keep_attempts` leaves what attempts that may still go on have written."""
    set_aside(folder)
    if not keep_attempts:
        # A run that failed can be resumed when the cause is gone; its complete segments are reused.
        folder.clear_scratch(keep_segments=result.status is Status.FAILED)
    folder.write(LEDGER, _run_ledger(run, rows, result.folder))
    folder.write(REPORT, _report(run, result, rows, timings))
    faults.reach(Point.REPORT_WRITTEN)


def _run_ledger(run: RunIdentity, rows: list[Materialization], place: str) -> dict[str, object]:
    """Build the run's ledger from the targets it made; a reused result is in the ledger of its own
    run."""
    made = [row for row in rows if row.status is not Status.SKIPPED]
    names = ("records_in", "fates", "unaccounted", "sub_ledgers", "rows_out", "balanced")
    assets: dict[str, object] = {}
    for row in made:
        if "balanced" in row.metadata:
            location = (row.location or "").removeprefix(f"{place}/").removesuffix("/output")
            facts = {name: row.metadata.get(name) for name in names}
            assets[str(row.target)] = facts | (
                {"ledger": f"{location}/{LEDGER}"} if location else {}
            )
    whole = all(row.metadata.get("balanced") for row in made)
    return {"ledger_version": "1.0", "run_id": run.run_id, "balanced": whole, "assets": assets}


def _report(
    run: RunIdentity,
    result: RunResult,
    rows: list[Materialization],
    timings: Sequence[Mapping[str, Any]],
) -> dict[str, object]:
    assets = [target_facts(made, row) for made, row in zip(result.assets, rows, strict=True)]
    finished = datetime.now(UTC)
    return {
        "run_id": run.run_id,
        "status": result.status.value,
        "openlineage_run_id": run.openlineage_run_id,
        "started_at": run.timestamp,
        "finished_at": finished.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_ms": int((finished - run.started_at).total_seconds() * 1000),
        **run_facts(assets),
        "commit": str(result.commit.id) if result.commit else None,
        "published": result.published(),
        "versions": versions_of(result.commit),
        **({"error": dict(result.error)} if result.error else {}),
        "timings": list(timings),
        "assets": assets,
    }
