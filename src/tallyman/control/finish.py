"""Closing a run: its status and its report, from what the registry holds of every target."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tallyman import faults
from tallyman.domain.fate import Fate
from tallyman.domain.materialization import Materialization
from tallyman.domain.run import AssetResult, RunIdentity, RunResult, Status, run_status
from tallyman.engine.run_folder import REPORT, SEAL, RunFolder
from tallyman.faults import Point

LEDGER = "ledger.json"


def result_of(row: Materialization) -> AssetResult:
    """What became of a target, as it was told to the registry."""
    name, partition = row.target.asset, row.target.partition
    if row.status is Status.PENDING:
        error = {"code": "not_run", "message": "what it reads did not succeed, or the run ended"}
        return AssetResult(name=name, partition=partition, status=row.status, error=error)
    if row.status is Status.RUNNING:
        return AssetResult(name=name, partition=partition, status=row.status, attempt=row.attempt)
    if "status" not in row.metadata:
        error = {"code": "interrupted", "message": row.error_message or "it was cut off"}
        return AssetResult(name=name, partition=partition, status=row.status, error=error)
    found = AssetResult.of_json(row.metadata)
    return found if found.status is Status.HALTED else found.with_status(row.status)


def results_in(rows: Iterable[Materialization]) -> tuple[AssetResult, ...]:
    return tuple(result_of(row) for row in rows)


def conclude(
    run: RunIdentity, rows: list[Materialization], place: str, *, canceled: bool = False
) -> RunResult:
    """How the run ended. A cancel that came when everything was done changes nothing."""
    results = results_in(rows)
    status = run_status({result.status for result in results})
    if canceled and status is not Status.SUCCESS:
        status = Status.CANCELED
    return RunResult(run_id=run.run_id, status=status, folder=place, assets=results)


def set_aside(folder: RunFolder) -> None:
    for name in (LEDGER, REPORT, SEAL):
        folder.set_aside(name, 1)


def write(
    folder: RunFolder, run: RunIdentity, result: RunResult, rows: list[Materialization]
) -> None:
    """ledger.json and the report; those of an earlier end of the run are kept aside."""
    set_aside(folder)
    folder.clear_staging()
    folder.write(LEDGER, _run_ledger(run, rows, result.folder))
    folder.write(REPORT, _report(run, result, rows))
    faults.reach(Point.REPORT_WRITTEN)


def _run_ledger(run: RunIdentity, rows: list[Materialization], place: str) -> dict[str, object]:
    """The balance of what this run made; what it reused is balanced where it was made."""
    made = [row for row in rows if row.status is not Status.SKIPPED]
    names = ("records_in", "fates", "unaccounted", "rows_out", "balanced")
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


def _operation(step: str | None) -> str | int | None:
    """A step whose changes are recorded is called by its number."""
    return int(step) if step is not None and step.isdigit() else step


def _report(run: RunIdentity, result: RunResult, rows: list[Materialization]) -> dict[str, object]:
    assets = []
    for made, row in zip(result.assets, rows, strict=True):
        errors = made.fates.get(Fate.ERROR, 0)
        assets.append(
            made.to_json()
            | {
                "error_rate": errors / made.records_in if made.records_in else 0.0,
                "rejections_by_type": dict(
                    sorted(row.metadata.get("rejections_by_type", {}).items())
                ),
                "last_completed_operation": _operation(row.last_completed_operation),
            }
        )
    finished = datetime.now(UTC)
    return {
        "run_id": run.run_id,
        "status": result.status.value,
        "openlineage_run_id": run.openlineage_run_id,
        "started_at": run.timestamp,
        "finished_at": finished.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_ms": int((finished - run.started_at).total_seconds() * 1000),
        "records_in": sum(a.records_in for a in result.assets),
        "rows_out": sum(a.rows_out for a in result.assets),
        "commit": str(result.commit.id) if result.commit else None,
        "published": result.published(),
        **({"error": dict(result.error)} if result.error else {}),
        "error_count": sum(a.fates.get(Fate.ERROR, 0) for a in result.assets),
        "assets": assets,
    }
