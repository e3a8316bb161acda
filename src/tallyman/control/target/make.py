"""Make one target: evaluate, prove, and move the output into place. Recording it comes after."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tallyman import faults
from tallyman.control.pipeline.check import Definition
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.redaction import redaction
from tallyman.control.target.target_inputs import TargetInputs
from tallyman.control.target.timings import Stopwatch, TimedObserver
from tallyman.domain.account import ledger_json
from tallyman.domain.account.fate import Evidence, Fate
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.ledger import Check, Discrepancy, KeyDigest, Ledger
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.account.sub_tally import sub_tallies
from tallyman.domain.account.verification_query import verification_query
from tallyman.domain.history.run import AssetResult, RunIdentity, Status
from tallyman.domain.pipeline.input_volume import VolumeRules
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.engine.asset.asset_run import AssetRun, of_spark
from tallyman.engine.asset.closing import AssetOutcome, withdraw
from tallyman.engine.asset.work import Folders, Work
from tallyman.engine.evidence import write
from tallyman.engine.evidence.content import holds
from tallyman.engine.evidence.key_check import null_values
from tallyman.engine.evidence.proof import compare_keys, compare_units
from tallyman.engine.files.listing import hash_files
from tallyman.engine.files.run_folder import LEDGER, TRACE, write_json, write_text
from tallyman.engine.observer import SILENT, Observer
from tallyman.engine.source.source import Input
from tallyman.errors import (
    RowsOutsidePartition,
    RowsUnaccountedFor,
    StepFailed,
    TallymanError,
    ThresholdExceeded,
)
from tallyman.faults import Point


@dataclass(frozen=True, slots=True)
class Making:
    """The outcome of making a target. `digest` is set if there is a result to read."""

    result: AssetResult
    digest: str | None = None
    rejections_by_type: Mapping[str, int] | None = None
    balanced: bool = False
    asks: bool = False
    timings: Sequence[Mapping[str, Any]] = ()
    records_read: Mapping[str, int] = field(default_factory=dict)
    error: TallymanError | None = None
    """Why there is no result, as it was raised; `result` has its facts."""

    def metadata(self, run: RunIdentity) -> dict[str, object]:
        """Build the metadata that the registry stores and reports use."""
        return self.result.to_json() | {
            "run": run.run_id,
            "rejections_by_type": dict(self.rejections_by_type or {}),
            "balanced": self.balanced,
            "timings": [dict(lap) for lap in self.timings],
        }


def work_on(definitions: Definitions, target: Target, run: RunIdentity, folders: Folders) -> Work:
    """Describe the work on a target, from the pipeline and the settings."""
    checked, asset = definitions.checked(), definitions.pipeline.assets[target.asset]
    return Work(
        target=target,
        asset=asset,
        plan=checked.plan(target),
        run=run,
        thresholds=definitions.thresholds(asset),
        evidence=definitions.evidence(asset),
        folders=folders,
        redaction=redaction(definitions.settings, checked.plans.values()),
        volume=VolumeRules.of(definitions.pipeline.sources.values()),
    )


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the targets of one checked pipeline in one Spark session."""

    spark: SparkSession
    definition: Definition

    def make(self, work: Work, inputs: TargetInputs, observer: Observer = SILENT) -> Making:
        """Evaluate, prove and write the ledger; a failure is a result too."""
        watch, started = Stopwatch(), time.monotonic()
        making = self._make(work, inputs, TimedObserver(watch, observer))
        timed = replace(making.result, duration_ms=int((time.monotonic() - started) * 1000))
        return replace(making, result=timed, timings=watch.stop())

    def _make(self, work: Work, inputs: TargetInputs, observer: Observer) -> Making:
        run: AssetRun | None = None
        place = work.folders.result
        try:
            run = AssetRun(work, self._opened(work, inputs), observer)
            outcome = run.execute()
            if not outcome.ledger.digests_agree and (careful := run.careful()):
                # The fast reader of some input cannot handle its content.
                observer.phase("reading again, line by line")
                run = careful
                outcome = run.execute()
            done = self._conclude(run, outcome, work, inputs)
            return replace(done, asks=done.digest is not None and self._asks(work))
        except TallymanError as error:
            status = Status.HALTED if isinstance(error, ThresholdExceeded) else Status.FAILED
            withdraw(place)  # do not leave unproved rows to be read
            if observer.canceled:
                write.clear(place / TRACE)  # a canceled target leaves no trace either
            if run is not None and not (place / LEDGER).exists():
                _write_ledger(run.unfinished_ledger(), work)
            facts = error.facts()
            result = AssetResult.of(work.target, status, attempt=work.attempt, error=facts)
            return Making(result, error=error)

    def _opened(self, work: Work, inputs: TargetInputs) -> dict[str, Input]:
        try:
            return inputs.open(self.spark, self.definition, work.redaction, work.folders.project)
        except Exception as error:
            if not of_spark(error):
                raise
            reason = f"opening its inputs: {work.redaction.reason(error)}"
            raise StepFailed(work.asset.name, reason) from error

    def _conclude(
        self, run: AssetRun, outcome: AssetOutcome, work: Work, inputs: TargetInputs
    ) -> Making:
        place = work.folders.result
        proved = prove(outcome.ledger, run.doors.accounted_inputs, place)
        ledger = replace(proved, replay_of=work.replay_of)
        ledger = with_versions(ledger, inputs.versions)
        error = outcome.error or _against(run, outcome, ledger)
        if error is None:
            faults.reach(Point.OUTPUT_MOVED)
        else:
            withdraw(place)
            outcome = outcome.withdrawn()
        write.clear(work.folders.scratch)
        inputs.keep_corrections(place)
        # Withdrawn rows have no file to count.
        left = [p for p in ledger.partitions if error is None or p.fate is not Fate.PASSED]
        folder = folder_of(self.definition.pipeline.assets, work.target)
        query = verification_query(folder, left, keys=ledger.evidence == Evidence.KEYS)
        _write_ledger(replace(ledger, query=query), work)
        faults.reach(Point.LEDGER_WRITTEN)
        digest = outcome.content.digest if outcome.content and error is None else None
        result = _measured(work, ledger, outcome, error)
        by_type, balanced = outcome.rejections_by_type, ledger.balanced
        read = outcome.records_read
        return Making(result, digest, by_type, balanced, records_read=read, error=error)

    def _asks(self, work: Work) -> bool:
        """True if a person has to approve the result."""
        approval = work.asset.approval
        if approval is None:
            return False
        if approval.when is None:
            return True
        schema = self.definition.schemas[work.asset.name]
        rows = self.spark.read.schema(schema).parquet(str(work.folders.output))
        return holds(rows, approval.when, work.run.clock)


def _against(run: AssetRun, outcome: AssetOutcome, ledger: Ledger) -> TallymanError | None:
    """Return the reason not to keep the output, other than a threshold."""
    try:
        check(ledger)
        _check_partition(run.work, outcome)
        run.refuse_far_years()
        run.key_check.refuse_repeated(ledger)
    except TallymanError as found:
        if not ledger.balanced:
            place = run.work.folders.result
            write_text(place / "ACCOUNTING_FAILURE.txt", explanation(ledger))
        return found
    return None


def _check_partition(work: Work, outcome: AssetOutcome) -> None:
    declared = work.asset.partitioned_by
    if declared is not None and outcome.content is not None and outcome.content.outside:
        raise RowsOutsidePartition(str(work.target), declared.column, outcome.content.outside)


def _measured(
    work: Work, ledger: Ledger, outcome: AssetOutcome, error: TallymanError | None
) -> AssetResult:
    status = Status.SUCCESS
    if error is not None:
        status = Status.HALTED if error is outcome.error else Status.FAILED
    return replace(
        AssetResult.of(work.target, status, attempt=work.attempt),
        error=error.facts() if error else None,
        records_in=ledger.records_in,
        fates=ledger.fates,
        unaccounted=ledger.unaccounted,
        sub_ledgers=sub_tallies(ledger),
        rows_out=outcome.rows_out,
        rejections=outcome.rejections,
        null_keys=null_values(work.folders.output, work.asset.key),
        warnings=outcome.warnings,
        references=ledger.references,
        input_warnings=outcome.input_warnings if error is None else (),
        missing_columns={a.name: a.missing_columns for a in ledger.inputs if a.missing_columns},
        column_metrics={a.name: a.columns for a in ledger.inputs if a.columns},
        reused=outcome.reused,
    )


def _write_ledger(ledger: Ledger, work: Work) -> None:
    """Write the ledger with the hash of every file next to it, so that a later change can be
    detected."""
    place, hidden = work.folders.result, sorted(work.redaction.columns)
    files = sorted(p for p in place.rglob("*") if p.is_file())
    stored = StoredLedger.of(ledger, redacted=tuple(hidden), files=hash_files(files, place))
    write_json(place / LEDGER, ledger_json.to_json(stored))


def prove(ledger: Ledger, inputs: Sequence[Input], folder: Path) -> Ledger:
    """Compare counts and digests; compare key by key only if they differ."""
    found = ledger.discrepancy
    if not ledger.digests_agree:
        if ledger.evidence == Evidence.DIGEST:
            found = _by_count(ledger)
        else:
            found = compare_keys(inputs, ledger, folder)
    if (folder / "output").exists() and not all(s.check.agrees for s in ledger.sub_ledgers):
        found += compare_units(inputs[0].spark, ledger, folder)
    return replace(ledger, discrepancy=found)


def _by_count(ledger: Ledger) -> Discrepancy:
    """Estimate the discrepancy without stored keys: the difference in counts, or at least one of
    each."""
    gap = ledger.unaccounted
    return Discrepancy(missing=max(gap, 0) or int(gap == 0), extra=max(-gap, 0) or int(gap == 0))


def with_versions(ledger: Ledger, versions: Sequence[InputVersion]) -> Ledger:
    """Add the versions that were read, each of which has as many rows as its door counted. The
    door of a replay counts the replayed records alone."""
    doors = {account.name: account.digest.count for account in ledger.inputs}
    checks = [
        Check(
            what=f"rows of {version} at the door",
            expected=KeyDigest(version.rows),
            found=KeyDigest(doors[version.input]),
        )
        for version in versions
        if version.input in doors and ledger.replay_of is None
    ]
    return replace(ledger, versions=tuple(versions), checks=(*ledger.checks, *checks))


def check(ledger: Ledger) -> None:
    if not ledger.balanced:
        found = ledger.discrepancy
        missing = found.missing or max(ledger.unaccounted, 0)
        checks = [str(check) for check in ledger.failed_checks]
        raise RowsUnaccountedFor(ledger.asset, missing, found.extra, found.duplicate, checks)


def explanation(ledger: Ledger) -> str:
    """Write ACCOUNTING_FAILURE.txt, for the person on call."""
    found = ledger.discrepancy
    lines = [
        f"The accounting of {ledger.asset} in run {ledger.run_id} does not balance.",
        "",
        f"records in    {ledger.records_in:>14,}",
        *(
            f"{fate.value.lower():<13} {count:>14,}"
            for fate, count in ledger.fates.items()
            if count
        ),
        f"unaccounted   {ledger.unaccounted:>14,}",
        "",
        f"missing {found.missing:,}   extra {found.extra:,}   duplicate {found.duplicate:,}",
    ]
    for kind, keys in found.samples.items():
        lines += [f"{kind}: {key}" for key in keys]
    if failed := ledger.failed_checks:
        lines += ["", "The files do not contain what the steps made:", *map(str, failed)]
    return "\n".join([*lines, "", "Nothing was published.", ""])
