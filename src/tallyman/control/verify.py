"""Checking a run again, long after it: from its files, and with `exact` from its inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallyman.control.again import Again
from tallyman.control.replay import compare_by_replay
from tallyman.domain.ledger import PROOF, Discrepancy
from tallyman.domain.target import Target
from tallyman.engine.files import hash_files
from tallyman.engine.proof import compare_keys
from tallyman.engine.runs import Run
from tallyman.errors import TallymanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    run_id: str
    balanced: bool
    found: Discrepancy
    changed_files: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        return {
            "run_id": self.run_id,
            "balanced": self.balanced,
            "missing": self.found.missing,
            "extra": self.found.extra,
            "duplicate": self.found.duplicate,
            "samples": dict(self.found.samples),
            "changed_files": self.changed_files,
            "reasons": self.reasons,
        }


def verify(run: Run, opened: Callable[[Target, Path], Again], exact: bool) -> Verdict:
    """What could not be checked counts as failure, never as success."""
    found = Discrepancy()
    changed: list[str] = []
    reasons: list[str] = []
    if run.report is None:
        reasons.append("the run did not finish: its ledger was never closed")
    for target, place in run.places().items():
        if not (place / "ledger.json").exists():
            reasons.append(f"{target}: there is no ledger")
            continue
        again = opened(target, place)
        differing = _changed(place, again.ledger)
        shown = os.path.relpath(place, run.folder)
        changed += [f"{shown}/{name}" for name in differing]
        reasons += _arithmetic(str(target), again.ledger)
        if differing or exact:
            try:
                found += _compare(again)
                reasons += _input_changed(again)
            except TallymanError as error:
                reasons.append(f"{target}: could not be checked key by key: {error}")
    reasons += [f"{name}: changed, missing or added since the run" for name in changed]
    balanced = found.empty and not reasons
    return Verdict(
        run_id=run.run_id, balanced=balanced, found=found, changed_files=changed, reasons=reasons
    )


def _changed(folder: Path, ledger: dict[str, Any]) -> list[str]:
    """Files that are not byte for byte what the run wrote."""
    present = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "ledger.json")
    now, then = hash_files(present, folder), ledger.get("files", {})
    return sorted(name for name in set(now) | set(then) if now.get(name) != then.get(name))


def _arithmetic(asset: str, ledger: dict[str, Any]) -> list[str]:
    """The ledger against itself: a number changed by hand does not add up."""
    door, out = ledger["input_accounting"], ledger["output_accounting"]
    total = sum(p["record_count"] for p in out["partitions"])
    sums = total == out["total_accounted"] and total + out["unaccounted"] == door["total_records"]
    if not sums or not ledger["verification"]["accounting_balanced"]:
        return [
            f"{asset}: {door['total_records']:,} records in, {total:,} accounted for, "
            f"ledger says balanced: {ledger['verification']['accounting_balanced']}"
        ]
    return []


def _compare(again: Again) -> Discrepancy:
    if again.ledger["verification"]["proof_method"] == PROOF:
        return compare_keys(again.accounted, again.ledger, again.place)
    return compare_by_replay(again.asset, again.plan, again.inputs, again.ledger, again.place)


def _input_changed(again: Again) -> list[str]:
    now = "+".join(source.files.content_hash for source in again.accounted)
    then = again.ledger["input_accounting"]["input_hash"]
    if now == then:
        return []
    return [f"{again.target}: the input has changed since the run: {then} then, {now} now"]
