"""A run: every selected asset in order, each proved before its output counts."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tallyman.control import define, gate
from tallyman.control.define import Definition
from tallyman.control.inputs import open_inputs
from tallyman.domain.fate import Evidence, Fate
from tallyman.domain.ledger import Ledger
from tallyman.domain.pipeline import Pipeline
from tallyman.domain.run import AssetResult, RunIdentity, RunResult, Status
from tallyman.domain.threshold import Thresholds
from tallyman.engine import settle
from tallyman.engine.asset_run import AssetRun, Outcome
from tallyman.engine.files import hash_files
from tallyman.engine.run_folder import REPORT, RunFolder, write_json, write_text
from tallyman.errors import TallymanError, ThresholdExceeded
from tallyman.settings import Settings

Listener = Callable[[str, str, AssetResult | None], None]
"""Called with an asset, what is happening to it, and its result once there is one."""


@dataclass
class Execution:
    spark: SparkSession
    settings: Settings
    pipeline: Pipeline
    run: RunIdentity
    chosen: list[str]
    evidence: Evidence | None = None
    thresholds: Thresholds | None = None
    listen: Listener = lambda *_: None
    definitions: dict[tuple[str, ...], Definition] = field(default_factory=dict)
    """Checked before, in this process: the pipeline cannot change while it is loaded."""
    reports: dict[str, dict[str, object]] = field(default_factory=dict)

    def execute(self) -> RunResult:
        chosen, run = self.chosen, self.run
        definition = self._checked(tuple(chosen))
        folder = RunFolder.create(self.settings.runs_folder, run)
        folder.write("manifest.json", self._manifest(run, chosen))
        folder.write("config.json", self._config(chosen))
        results: list[AssetResult] = []
        for name in chosen:
            blocked = self._blocked_by(name, results)
            if blocked:
                error = {"code": "upstream_failed", "message": f"{blocked} did not succeed"}
                results.append(AssetResult(name=name, status=Status.SKIPPED, error=error))
            else:
                results.append(self._run_asset(name, run, definition, folder))
            self.listen(name, "done", results[-1])
        return self._finish(run, folder, results)

    def _checked(self, chosen: tuple[str, ...]) -> Definition:
        if chosen not in self.definitions:
            found = define.check(self.spark, self.pipeline, chosen, self.settings.home)
            self.definitions[chosen] = found
        return self.definitions[chosen]

    def _blocked_by(self, name: str, results: list[AssetResult]) -> str | None:
        failed = {r.name for r in results if r.status is not Status.SUCCESS}
        return next((i for i in self.pipeline.assets[name].inputs if i in failed), None)

    # ---- one asset ---------------------------------------------------------------------

    def _run_asset(
        self, name: str, run: RunIdentity, definition: Definition, folder: RunFolder
    ) -> AssetResult:
        started = time.monotonic()
        self.listen(name, "opening", None)
        place = folder.asset(name)
        work: AssetRun | None = None
        try:
            work = self._prepare(name, run, definition, folder, place)
            outcome = work.execute()
            if not outcome.ledger.digests_agree and work.reread():
                # The quick reading of some input was too quick for what stands in it.
                self.listen(name, "reading again, line by line", None)
                outcome = work.execute()
        except TallymanError as error:
            status = Status.HALTED if isinstance(error, ThresholdExceeded) else Status.FAILED
            if work is not None:
                _write_ledger(work.unfinished_ledger(), place)
            return AssetResult(
                name=name, status=status, duration_ms=_elapsed(started), error=error.facts()
            )
        return self._conclude(name, work, outcome, place, started)

    def _prepare(
        self, name: str, run: RunIdentity, definition: Definition, folder: RunFolder, place: Path
    ) -> AssetRun:
        asset = self.pipeline.assets[name]
        inputs = open_inputs(
            self.spark, definition, name, self.settings.home, self.settings.runs_folder, folder.path
        )
        return AssetRun(
            asset=asset,
            plan=definition.plans[name],
            run=run,
            inputs=inputs,
            thresholds=self.thresholds
            or asset.thresholds
            or Thresholds.of(self.settings.thresholds),
            evidence=self.evidence or asset.evidence,
            folder=place,
            staging=folder.staging(name),
            progress=lambda phase: self.listen(name, phase, None),
        )

    def _conclude(
        self, name: str, work: AssetRun, outcome: Outcome, place: Path, started: float
    ) -> AssetResult:
        accounted = [work.inputs[source] for source in work.accounted]
        ledger = gate.prove(outcome.ledger, accounted, place, work.locations())
        error: TallymanError | None = outcome.error
        status = Status.HALTED if error else Status.SUCCESS
        if error is None:
            try:
                gate.check(ledger)
            except TallymanError as found:
                error, status = found, Status.FAILED
                write_text(place / "ACCOUNTING_FAILURE.txt", gate.explanation(ledger))
        if error is None or (
            outcome.error and work.thresholds.on_halt == "commit" and ledger.balanced
        ):
            work.publish(outcome)
        settle.clear(work.staging)
        _write_ledger(ledger, place)
        result = AssetResult(
            name=name,
            status=status,
            records_in=ledger.records_in,
            fates=ledger.fates,
            unaccounted=ledger.unaccounted,
            rows_out=outcome.rows_out,
            rejections=outcome.rejections,
            duration_ms=_elapsed(started),
            error=error.facts() if error else None,
        )
        self.reports[name] = {
            "ledger": ledger,
            "rejections_by_type": dict(outcome.rejections_by_type),
        }
        return result

    # ---- the files of the run -----------------------------------------------------------

    def _config(self, chosen: list[str]) -> dict[str, object]:
        return {
            "project": self.settings.name,
            "assets": chosen,
            "evidence": self.evidence.value if self.evidence else None,
            "thresholds": str(self.thresholds) if self.thresholds else None,
            "master": self.settings.master,
            "spark": dict(self.settings.spark),
        }

    def _manifest(self, run: RunIdentity, chosen: list[str]) -> dict[str, object]:
        return {
            "manifest_version": "1.0",
            "run_id": run.run_id,
            "timestamp": run.timestamp,
            "folder_name": run.folder_name,
            "assets": chosen,
            "execution_metadata": {
                "spark_version": self.spark.version,
                "pyspark_version": pyspark.__version__,
                "python_version": platform.python_version(),
            },
            "openlineage_run_id": run.openlineage_run_id,
        }

    def _finish(self, run: RunIdentity, folder: RunFolder, results: list[AssetResult]) -> RunResult:
        settle.clear(folder.path / ".staging")
        statuses = {r.status for r in results}
        status = next((s for s in (Status.FAILED, Status.HALTED) if s in statuses), Status.SUCCESS)
        result = RunResult(
            run_id=run.run_id,
            status=status,
            folder=str(folder.path.relative_to(self.settings.home)),
            assets=tuple(results),
        )
        folder.write("ledger.json", self._run_ledger(run, results))
        folder.write(REPORT, self._report(run, result))
        return result

    def _run_ledger(self, run: RunIdentity, results: list[AssetResult]) -> dict[str, object]:
        assets = {
            r.name: {
                "records_in": r.records_in,
                "fates": {fate.value: count for fate, count in r.fates.items()},
                "unaccounted": r.unaccounted,
                "rows_out": r.rows_out,
                "ledger": f"{r.name}/ledger.json",
            }
            for r in results
            if r.name in self.reports
        }
        balanced = [
            bool(getattr(report["ledger"], "balanced", False)) for report in self.reports.values()
        ]
        whole = all(balanced) and len(assets) == len(results)
        return {"ledger_version": "1.0", "run_id": run.run_id, "balanced": whole, "assets": assets}

    def _report(self, run: RunIdentity, result: RunResult) -> dict[str, object]:
        assets = []
        for made in result.assets:
            errors = made.fates.get(Fate.ERROR, 0)
            extra = self.reports.get(made.name, {})
            assets.append(
                made.to_json()
                | {
                    "error_rate": errors / made.records_in if made.records_in else 0.0,
                    "rejections_by_type": extra.get("rejections_by_type", {}),
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
            "error_count": sum(a.fates.get(Fate.ERROR, 0) for a in result.assets),
            "assets": assets,
        }


def _elapsed(started: float) -> int:
    return int((time.monotonic() - started) * 1000)


def _write_ledger(ledger: Ledger, place: Path) -> None:
    """With the hash of every file beside it, so that a change shows long after the run."""
    files = sorted(p for p in place.rglob("*") if p.is_file())
    write_json(place / "ledger.json", ledger.to_json() | {"files": hash_files(files, place)})
