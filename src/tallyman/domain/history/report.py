"""The facts of a report: counts, rates and sums, derived from what is stored about targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallyman.domain.account.fate import Fate
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.run import AssetResult
from tallyman.domain.version.commit import Commit


def target_facts(made: AssetResult, row: Materialization) -> dict[str, Any]:
    """Collect the facts about one target for the report of its run."""
    kept = row.metadata
    return made.to_json() | {
        **rates(made.records_in, made.fates),
        "rejections_by_type": dict(sorted(kept.get("rejections_by_type", {}).items())),
        "last_completed_operation": _operation(row.last_completed_operation),
        "content_digest": row.content_digest,
        "inputs": list(kept.get("inputs", ())),
        "bytes": dict(kept.get("bytes", {})),
        "timings": list(kept.get("timings", ())),
        **({"meta": dict(kept["meta"])} if kept.get("meta") else {}),
    }


def rates(records_in: int, fates: Mapping[Any, int]) -> dict[str, float]:
    """Compute the shares of rejected and of filtered records."""

    def share(fate: Fate) -> float:
        return fates.get(fate, 0) / records_in if records_in else 0.0

    return {"error_rate": share(Fate.ERROR), "filtered_rate": share(Fate.FILTERED)}


def run_facts(targets: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the facts of a run's targets, or of some of them."""
    listed = list(targets)
    fates = {
        fate.value: sum(one.get("fates", {}).get(fate.value, 0) for one in listed) for fate in Fate
    }
    records_in = sum(one.get("records_in", 0) for one in listed)
    return {
        "records_in": records_in,
        "rows_out": sum(one.get("rows_out", 0) for one in listed),
        "fates": fates,
        "unaccounted": sum(one.get("unaccounted", 0) for one in listed),
        "error_count": fates[Fate.ERROR],
        "filtered_count": fates[Fate.FILTERED],
        **rates(records_in, fates),
        "bytes": total_bytes(listed),
    }


def total_bytes(targets: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Add up sizes by kind; `read` counts an input once for each target that read it."""
    found: dict[str, dict[str, int]] = {}
    for one in targets:
        read = [("read", given) for given in one.get("inputs", ())]
        for kind, size in [*read, *one.get("bytes", {}).items()]:
            total = found.setdefault(kind, {"files": 0, "bytes": 0})
            total["files"] += size["files"]
            total["bytes"] += size["bytes"]
    return found


def versions_of(commit: Commit | None) -> list[dict[str, Any]]:
    """List each dataset that the commit moved, with its new and its previous version."""
    return [
        {
            "dataset": move.dataset,
            "version": move.ordinal,
            "was": move.ordinal - 1 if move.ordinal > 1 else None,
            "operation": str(move.operation),
            "rows": move.rows,
            "rows_before": move.rows_before,
        }
        for move in (commit.moves if commit else ())
    ]


def _operation(step: str | None) -> str | int | None:
    """Convert the name of a traced step, which is its number, to an integer."""
    return int(step) if step is not None and step.isdigit() else step
