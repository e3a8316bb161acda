"""Checking a run again, long after it: from its files, and with `exact` from its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tallyman.control import define
from tallyman.control.define import Definition
from tallyman.control.inputs import open_inputs
from tallyman.control.replay import compare_by_replay
from tallyman.domain.ledger import PROOF, Discrepancy
from tallyman.domain.pipeline import Pipeline
from tallyman.domain.plan import accounted_inputs
from tallyman.engine.files import hash_files
from tallyman.engine.proof import compare_keys
from tallyman.engine.runs import Run
from tallyman.engine.source import Input
from tallyman.errors import TallymanError
from tallyman.settings import Settings


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


def verify(
    run: Run, settings: Settings, pipeline: Pipeline, spark: Callable[[], SparkSession], exact: bool
) -> Verdict:
    """What could not be checked counts as failure, never as success."""
    found = Discrepancy()
    changed: list[str] = []
    reasons: list[str] = []
    if run.report is None:
        reasons.append("the run did not finish: its ledger was never closed")
    for asset in run.assets():
        if not (run.folder / asset / "ledger.json").exists():
            reasons.append(f"{asset}: there is no ledger")
            continue
        ledger = run.ledger(asset)
        differing = _changed(run.folder / asset, ledger)
        changed += [f"{asset}/{name}" for name in differing]
        reasons += _arithmetic(asset, ledger)
        if differing or exact:
            try:
                again = _open_again(run, asset, ledger, settings, pipeline, spark())
                found += again.compare()
                reasons += again.input_changed()
            except TallymanError as error:
                reasons.append(f"{asset}: could not be checked key by key: {error}")
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


@dataclass(frozen=True, slots=True)
class _Again:
    """An asset opened again as it is now: its plan and its inputs."""

    run: Run
    asset: str
    ledger: dict[str, Any]
    definition: Definition
    inputs: Mapping[str, Input]

    @property
    def accounted(self) -> list[Input]:
        return [self.inputs[name] for name in accounted_inputs(self.definition.plans[self.asset])]

    def compare(self) -> Discrepancy:
        folder = self.run.folder / self.asset
        if self.ledger["verification"]["proof_method"] == PROOF:
            return compare_keys(self.accounted, self.ledger, folder)
        asset = self.definition.pipeline.assets[self.asset]
        plan = self.definition.plans[self.asset]
        return compare_by_replay(asset, plan, self.inputs, self.ledger, folder)

    def input_changed(self) -> list[str]:
        now = "+".join(source.files.content_hash() for source in self.accounted)
        then = self.ledger["input_accounting"]["input_hash"]
        if now == then:
            return []
        return [f"{self.asset}: the input has changed since the run: {then} then, {now} now"]


def _open_again(
    run: Run,
    asset: str,
    ledger: dict[str, Any],
    settings: Settings,
    pipeline: Pipeline,
    spark: SparkSession,
) -> _Again:
    definition = define.check(spark, pipeline, [asset], settings.home)
    inputs = open_inputs(spark, definition, asset, settings.home, settings.runs_folder, run.folder)
    return _Again(run, asset, ledger, definition, inputs)
