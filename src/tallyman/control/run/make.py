"""Making one target: evaluate, prove, put the output in its place. The registry comes after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tallyman import faults
from tallyman.control.bind.inputs import Pin, open_inputs
from tallyman.control.pipeline.load import Definition
from tallyman.control.pipeline.redaction import LEDGER_FIELD
from tallyman.control.run import gate
from tallyman.control.run.timings import Stopwatch
from tallyman.domain.account.fate import Evidence, Fate
from tallyman.domain.account.ledger import Ledger
from tallyman.domain.account.sub_tally import sub_tallies
from tallyman.domain.account.verification_query import verification_query
from tallyman.domain.definition.target import Target, folder_of
from tallyman.domain.definition.threshold import Thresholds
from tallyman.domain.history.run import AssetResult, RunIdentity, Status
from tallyman.engine.asset_run import AssetOutcome, AssetRun, withdraw
from tallyman.engine.evidence import write
from tallyman.engine.evidence.content import holds
from tallyman.engine.evidence.key_check import null_values
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.listing import hash_files
from tallyman.engine.files.run_folder import LEDGER, write_json, write_text
from tallyman.engine.source.source import Input
from tallyman.errors import RowsOutsidePartition, TallymanError, ThresholdExceeded
from tallyman.faults import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that making a target needs and that is decided before."""

    target: Target
    attempt: int
    run: RunIdentity
    pins: Mapping[str, Pin]
    thresholds: Thresholds
    evidence: Evidence
    place: Path
    scratch: Path
    project: Path
    progress: Callable[[str], None]
    completed: Callable[[str], None]
    tag: str
    redaction: Redaction
    canceled: Callable[[], bool] = lambda: False
    replay_of: str | None = None
    """The run whose rejections are replayed; `overlaid` puts them in their place."""
    overlaid: Callable[[dict[str, Input]], dict[str, Input]] = lambda inputs: inputs
    stays: Sequence[str] = ()
    """Files of rows that the output is added to."""
    kept: Callable[[Path], object] = lambda _: None
    """Puts into the folder what else belongs to the result, before its files are hashed."""


@dataclass(frozen=True, slots=True)
class Making:
    """How it went. `digest` is there when there is a result to read."""

    result: AssetResult
    digest: str | None = None
    rejections_by_type: Mapping[str, int] | None = None
    balanced: bool = False
    asks: bool = False
    timings: Sequence[Mapping[str, Any]] = ()

    def metadata(self, run: RunIdentity) -> dict[str, object]:
        """What the registry keeps of it, and reports are written from."""
        return self.result.to_json() | {
            "run": run.run_id,
            "rejections_by_type": dict(self.rejections_by_type or {}),
            "balanced": self.balanced,
            "timings": [dict(lap) for lap in self.timings],
        }


def make(spark: SparkSession, definition: Definition, order: Order) -> Making:
    watch = Stopwatch()
    making = _make(spark, definition, _timed(order, watch))
    return replace(making, timings=watch.stop())


def _timed(order: Order, watch: Stopwatch) -> Order:
    def progress(phase: str) -> None:
        watch.phase(phase)
        order.progress(phase)

    def completed(step: str) -> None:
        watch.step(step)
        order.completed(step)

    return replace(order, progress=progress, completed=completed)


def _make(spark: SparkSession, definition: Definition, order: Order) -> Making:
    started = time.monotonic()
    work: AssetRun | None = None
    try:
        work = _prepare(spark, definition, order)
        outcome = work.execute()
        if not outcome.ledger.digests_agree and work.reread():
            # The quick reading of some input was too quick for what stands in it.
            order.progress("reading again, line by line")
            outcome = work.execute()
        folder = folder_of(definition.pipeline.assets, order.target)
        done = _conclude(work, outcome, order, folder)
        asks = done.digest is not None and _asks(spark, definition, order)
    except TallymanError as error:
        status = Status.HALTED if isinstance(error, ThresholdExceeded) else Status.FAILED
        withdraw(order.place)  # what was not proved is not left to be read
        if order.canceled():
            write.clear(order.place / "trace")  # what was done is taken back, the trace too
        if work is not None and not (order.place / LEDGER).exists():
            _write_ledger(work.unfinished_ledger(), order)
        return Making(_result(order, status, started, error=error.facts()))
    timed = replace(done.result, duration_ms=_elapsed(started))
    return replace(done, result=timed, asks=asks)


def _prepare(spark: SparkSession, definition: Definition, order: Order) -> AssetRun:
    asset = definition.pipeline.assets[order.target.asset]
    declared, partition = asset.partitioned_by, order.target.partition
    only = None
    if declared is not None and partition is not None:
        quoted = "`" + declared.column.replace("`", "``") + "`"
        only = F.expr(f"{quoted} <=> {declared.literal(partition)}")
    return AssetRun(
        asset=asset,
        plan=definition.plan(order.target),
        run=order.run,
        inputs=order.overlaid(open_inputs(spark, definition, order.pins, order.redaction)),
        thresholds=order.thresholds,
        evidence=order.evidence,
        folder=order.place,
        scratch=order.scratch,
        project=order.project,
        progress=order.progress,
        completed=order.completed,
        partition_label=declared.folder(partition).partition("=")[2]
        if declared and partition
        else "all",
        only=only,
        partition=partition,
        tag=order.tag,
        redaction=order.redaction,
        stays=order.stays,
    )


def _conclude(work: AssetRun, outcome: AssetOutcome, order: Order, folder: str) -> Making:
    accounted = [work.inputs[source] for source in work.accounted]
    proved = gate.prove(outcome.ledger, accounted, order.place)
    ledger = replace(proved, replay_of=order.replay_of)
    error: TallymanError | None = outcome.error
    status = Status.HALTED if error else Status.SUCCESS
    if error is None:
        try:
            gate.check(ledger)
            _check_partition(work, outcome, order)
            work.key_check.refuse_repeated(ledger)
        except TallymanError as found:
            error, status = found, Status.FAILED
            if not ledger.balanced:
                write_text(order.place / "ACCOUNTING_FAILURE.txt", gate.explanation(ledger))
    if error is None:
        faults.reach(Point.OUTPUT_MOVED)
    else:
        work.withdraw(outcome)
    write.clear(work.scratch)
    order.kept(order.place)
    # Of rows that were withdrawn there is no file to count.
    left = [p for p in ledger.partitions if error is None or p.fate is not Fate.PASSED]
    query = verification_query(folder, left, keys=ledger.evidence == Evidence.KEYS)
    _write_ledger(replace(ledger, query=query), order)
    faults.reach(Point.LEDGER_WRITTEN)
    content = outcome.content if error is None else None
    result = AssetResult(
        name=order.target.asset,
        partition=order.target.partition,
        attempt=order.attempt,
        status=status,
        records_in=ledger.records_in,
        fates=ledger.fates,
        unaccounted=ledger.unaccounted,
        sub_ledgers=sub_tallies(ledger),
        rows_out=outcome.rows_out,
        rejections=outcome.rejections,
        null_keys=null_values(order.place / "output", work.asset.key),
        error=error.facts() if error else None,
    )
    digest = content.digest if content else None
    return Making(result, digest, outcome.rejections_by_type, ledger.balanced)


def _check_partition(work: AssetRun, outcome: AssetOutcome, order: Order) -> None:
    declared = work.asset.partitioned_by
    if declared is not None and outcome.content is not None and outcome.content.outside:
        raise RowsOutsidePartition(str(order.target), declared.column, outcome.content.outside)


def _asks(spark: SparkSession, definition: Definition, order: Order) -> bool:
    """Whether a person has to say yes."""
    approval = definition.pipeline.assets[order.target.asset].approval
    if approval is None:
        return False
    if approval.when is None:
        return True
    schema = definition.schemas[order.target.asset]
    rows = spark.read.schema(schema).parquet(str(order.place / "output"))
    return holds(rows, approval.when, order.run.clock)


def _result(
    order: Order, status: Status, started: float, *, error: dict[str, object]
) -> AssetResult:
    return AssetResult(
        name=order.target.asset,
        partition=order.target.partition,
        attempt=order.attempt,
        status=status,
        duration_ms=_elapsed(started),
        error=error,
    )


def _elapsed(started: float) -> int:
    return int((time.monotonic() - started) * 1000)


def _write_ledger(ledger: Ledger, order: Order) -> None:
    """With the hash of every file next to it, so that a change shows long after the run."""
    place, hidden = order.place, sorted(order.redaction.columns)
    files = sorted(p for p in place.rglob("*") if p.is_file())
    facts = {LEDGER_FIELD: hidden} if hidden else {}
    write_json(place / LEDGER, ledger.to_json() | facts | {"files": hash_files(files, place)})
