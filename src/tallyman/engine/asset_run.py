"""One asset in one run: evaluate, write evidence, prove, and only then place the output."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman import faults
from tallyman.domain.account.fate import Evidence
from tallyman.domain.account.ledger import InputAccount, KeyDigest, Ledger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.pipeline import Asset
from tallyman.domain.definition.plan import (
    accounted_inputs,
    has_working_set,
    is_traced,
    step_ids,
)
from tallyman.domain.definition.step import Append, Expect, GroupBy, Join, Step
from tallyman.domain.definition.threshold import Halt, Thresholds
from tallyman.domain.history.run import RunIdentity
from tallyman.engine.columns.reads import columns_read
from tallyman.engine.columns.tainted import tainted
from tallyman.engine.evidence import breaker
from tallyman.engine.evidence.account import Account, Totals
from tallyman.engine.evidence.content import Content, measure
from tallyman.engine.evidence.evidence_jobs import EvidenceJobs
from tallyman.engine.evidence.kept import Kept, LetterCounts
from tallyman.engine.evidence.key_check import KeyCheck
from tallyman.engine.evidence.write import SUMMARY, EvidenceWriter, clear, move_files
from tallyman.engine.expressions.columns import ERROR, KEY, PART, SYSTEM
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.plan import timed_plan
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.stage import Stage, WrittenRows
from tallyman.engine.source import repeated
from tallyman.engine.source.source import Door, Input
from tallyman.engine.working.trace import RowIds, Tracer
from tallyman.engine.working.working_run import OUTPUTS, WorkingRun
from tallyman.errors import (
    EmptyInput,
    JoinFanOut,
    StepFailed,
    StructuralError,
    ThresholdExceeded,
)
from tallyman.faults import Point


@dataclass
class AssetOutcome:
    """What an asset's run left: its ledger always, its output when nothing stood against it."""

    ledger: Ledger
    rejections: int
    rejections_by_type: Mapping[str, int]
    rows_out: int = 0
    error: ThresholdExceeded | None = None
    content: Content | None = None


class _Halted(Exception):
    pass


@dataclass
class AssetRun:
    asset: Asset
    plan: Frame
    run: RunIdentity
    inputs: Mapping[str, Input]
    thresholds: Thresholds
    evidence: Evidence
    folder: Path
    scratch: Path
    project: Path
    progress: Callable[[str], None] = lambda _: None
    completed: Callable[[str], None] = lambda _: None
    """Called each time what the steps up to one did has been written."""
    partition_label: str = "all"
    only: Column | None = None
    """True of every row the output may hold: those of its partition."""
    partition: str | None = None
    tag: str | None = None
    """Marks the Spark jobs, so that they can be interrupted together."""
    redaction: Redaction = field(default_factory=Redaction)
    stays: Sequence[str] = ()
    """Files of rows that the output is added to."""
    totals: Totals = field(default_factory=dict)
    halt: Halt | None = None

    def __post_init__(self) -> None:
        self.plan = timed_plan.at(self.plan, self.run.clock)
        if self.evidence is Evidence.DIGEST and _validates_groups(self.plan):
            # A group that fails afterwards makes its records ERROR: they must be known by name.
            self.evidence = Evidence.KEYS
        self._begin()

    def _begin(self) -> None:
        self.totals.clear()
        self.halt = None
        hidden = tainted(self.plan, self.redaction.columns)
        self.redaction = replace(self.redaction, columns=hidden)
        self.book = Book(self.asset.name, redaction=self.redaction)
        self.writer = EvidenceWriter(
            self.run, self.book, self.folder, self.scratch, self.partition_label
        )
        self.accounted = accounted_inputs(self.plan)
        self.traced = is_traced(self.asset.trace, self.plan)
        self.reads = {name: self._columns_read(name) for name in self.accounted}
        self.evaluation = Evaluation(
            book=self.book,
            inputs=self.inputs,
            references=self._reference,
            step_ids=step_ids(self.plan),
            evidence=self.evidence,
            folder=str(self.scratch),
            on_stage=self._after_segment,
            reads=self.reads,
        )
        self.pool = ThreadPoolExecutor(8, self.asset.name, initializer=self._mark_jobs)
        self.doors: dict[str, Future[Door]] = {}
        self.hashes: dict[str, Future[str]] = {}
        self.repeated = repeated.Repeated()
        self.evidence_jobs = EvidenceJobs(self.writer, self.evaluation, self.pool)
        self.written: tuple[Stage, Future[dict[int, KeyDigest]]] | None = None
        self.content: Future[Content] | None = None
        self.key_check = KeyCheck(self.asset, self.plan, self.pool, self.redaction, self.stays)
        works = has_working_set(self.asset.trace, self.plan)
        self.working = self._working_run() if works else None

    def _columns_read(self, name: str) -> set[str]:
        names = self.inputs[name].schema.names
        # Of a row whose changes are recorded everything is loaded: its state is all of it.
        return set(names) if self.traced else columns_read(self.plan, name, names)

    def _working_run(self) -> WorkingRun:
        ids = RowIds(self.run, self.asset.name, self.partition)
        tracer = None
        if self.traced:
            place = self.folder / "trace"
            tracer = Tracer(ids, place, self.scratch, self.pool, self.completed, self.redaction)
        return WorkingRun(
            self.plan,
            self.inputs,
            self.evaluation,
            ids,
            tracer,
            self.scratch,
            self._check_segment,
        )

    def _mark_jobs(self) -> None:
        if self.tag:
            next(iter(self.inputs.values())).spark.addTag(self.tag)

    def reread(self) -> bool:
        """Start over with the careful reading of inputs that have one; False when there is none."""
        careful = {name: source.slower() or source for name, source in self.inputs.items()}
        if all(careful[name] is source for name, source in self.inputs.items()):
            return False
        for place in (self.folder, self.scratch):
            clear(place)
            place.mkdir()
        self.inputs = careful
        self._begin()
        return True

    # ---- the order of things -------------------------------------------------------------

    def execute(self) -> AssetOutcome:
        self._mark_jobs()
        try:
            self._break_early()
            for name, source in self.inputs.items():
                self.hashes[name] = self.pool.submit(_content_hash, source)
            for name in set(self.accounted):
                self.doors[name] = self.pool.submit(self.inputs[name].door)
            self._read_places()
            self.progress("evaluating")
            made = self._evaluate()
            self.progress("settling")
            self.evidence_jobs.wait()
            self.progress("proving")
            return self._conclude(made)
        except Exception as error:
            if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
                raise
            raise StepFailed(self.asset.name, self.redaction.reason(error)) from error
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def _read_places(self) -> None:
        """Read records with their places where keys do not distinguish them, so that evidence
        names each of them. It must be known before the one evaluation begins."""
        self.repeated = repeated.count({name: self.inputs[name] for name in self.accounted})
        placed = {
            name: self.inputs[name].with_places(name)
            for name in dict.fromkeys(self.accounted)
            if self.repeated.placed(name)
        }
        for name, source in placed.items():
            if type(source) is not type(self.inputs[name]):  # measured as the records are read
                self.doors[name] = self.pool.submit(source.door)
        if placed:
            self.inputs = self.evaluation.inputs = {**self.inputs, **placed}

    def _evaluate(self) -> WrittenRows | None:
        """Put the output in its place; None if it did not come to one."""
        written = self.scratch / "output"
        try:
            made = self._written(written)
            self._check_segment()
            self._report_reached()
            move_files(made.folder, self.output)
            if self.working is not None:
                self.working.keep_outputs(self.folder, self.partition_label)
            self._measure_output(made)
            return made
        except _Halted:
            return None
        finally:
            if not self.evidence_jobs.jobs:
                self.evidence_jobs.start()

    def _written(self, folder: Path) -> WrittenRows:
        if self.working is not None:
            return self.working.evaluate(folder)
        flow = self.evaluation.flow(self.plan)
        if not flow.untouched_groups:
            return WrittenRows.of_stage(self.evaluation.output(flow))
        self.evidence_jobs.start()  # all segments are written: evidence beside the output
        rows = self.evaluation.output_groups(flow, str(folder))
        return WrittenRows(folder, rows, flow.level, flow.group_columns)

    @property
    def output(self) -> Path:
        """Where the rows that passed are measured, and stay if the gate lets them."""
        return self.folder / "output"

    def _measure_output(self, made: WrittenRows) -> None:
        """Start the digest of the rows that passed, while evidence is still being written."""
        spark = next(iter(self.inputs.values())).spark
        rows = spark.read.schema(made.schema).parquet(str(self.output)).drop(SYSTEM)
        self.content = self.pool.submit(measure, rows, self.only)
        counted = None not in self.repeated.counts.values()
        self.key_check.begin(rows, self._kept_key(made), counted)

    def _kept_key(self, made: WrittenRows) -> tuple[str, ...]:
        """The columns that hold the source key, where each row of the output is a record of the
        one input."""
        own = made.level == 0 and len(self.accounted) == 1
        return self.evaluation.output_key if own else ()

    def _report_reached(self) -> None:
        """Report the steps that are done; those with a trace report themselves."""
        if self.evaluation.reached and not self.traced:
            self.completed(self.evaluation.reached)

    def _after_segment(self, stage: Stage) -> None:
        """Count what was written, while the next job already starts on it."""
        faults.reach(Point.SEGMENT_WRITTEN)
        self._report_reached()
        self._check_segment()
        self.written = (stage, self.pool.submit(stage.totals))

    def _check_segment(self) -> None:
        """Fan-out and thresholds of the segment written last."""
        if self.written is None:
            return
        (stage, counted), self.written = self.written, None
        found = self.totals[id(stage)] = counted.result()
        for number, part in self.book.parts.items():
            if part.fate is None and number in found:
                rows = stage.dropped().where(F.col(PART) == number)
                keys = [row[KEY] for row in rows.select(KEY).orderBy(KEY).limit(5).collect()]
                step = part.step_id.rpartition(".")[0]
                raise JoinFanOut(self.asset.name, step, found[number].count, keys)
        self.halt = self.thresholds.check(self._errors(), self.records_in)
        if self.halt:
            raise _Halted

    @property
    def records_in(self) -> int:
        return sum(self.doors[name].result().digest.count for name in self.accounted)

    def _errors(self) -> int:
        """Rejected records; a failed group counts as the records behind it."""
        staged = self.evaluation.staged
        return sum(self.totals[id(s)].get(ERROR, KeyDigest()).count for s in staged if s.level == 0)

    # ---- before reading on -----------------------------------------------------------------

    def _break_early(self) -> None:
        """The circuit breaker: a look at the first records, before the dead letters fill up."""
        rate = max(self.thresholds.breaker, self.thresholds.percentage)
        for name in dict.fromkeys(self.accounted):
            broken = breaker.unreadable(self.inputs[name], self.book, self.thresholds.window, rate)
            if broken is not None:
                self.evidence_jobs.write_letters(broken.sample)
                self._letters(self._kept())
                raise StructuralError(self.asset.name, name, broken.bad, broken.seen, rate)
        self.book.rules.clear()

    def _reference(self, name: str) -> DataFrame:
        return breaker.reference(self.inputs[name])

    # ---- the ledger -----------------------------------------------------------------------

    def _conclude(self, made: WrittenRows | None) -> AssetOutcome:
        kept = self._kept()
        letters = self._letters(kept)
        ledger = self._ledger(kept, letters, made)
        self.halt = self.halt or self.thresholds.check_ledger(ledger)
        by_type: dict[str, int] = {}
        for row in letters.summary:
            kind = str(row["error_type"])
            by_type[kind] = by_type.get(kind, 0) + int(row["count"])
        outcome = AssetOutcome(ledger, sum(by_type.values()), by_type)
        if self.content is not None:
            outcome.content = self.content.result()
            outcome.rows_out = kept.rows("output")
        for source in self.inputs.values():
            source.files.check_unchanged()
        if self.halt:
            halt = self.halt
            outcome.error = ThresholdExceeded(
                self.asset.name,
                halt.reason,
                halt.errors,
                halt.threshold,
                halt.rejected,
                halt.total,
            )
        elif ledger.records_in == 0 and self.thresholds.on_empty == "halt":
            outcome.error = EmptyInput(self.asset.name)
        return outcome

    def _kept(self) -> Kept:
        return Kept(self.folder, lambda: next(iter(self.inputs.values())).spark)

    def _letters(self, kept: Kept) -> LetterCounts:
        """The dead letters as they were written; their summary is made of nothing else."""
        found = kept.letters()
        if found.count:
            write_json(self.folder / "errors" / SUMMARY, list(found.summary))
        return found

    def withdraw(self, outcome: AssetOutcome) -> None:
        """Take the rows away again: the gate did not let them pass."""
        withdraw(self.folder)
        outcome.rows_out = 0

    def _passed(self, kept: Kept, made: WrittenRows | None) -> dict[int, KeyDigest]:
        """The rows of the output, by their level: as they are in their place."""
        if made is None:
            return {}
        if made.group_columns is not None:
            return {len(self.evaluation.opened): kept.group_rows(made.group_columns)}
        found = kept.passed(self.evaluation.output_key)
        if made.level is not None:
            return {made.level: sum(found.values(), KeyDigest())}
        levels = {cut.step_id: n for n, cut in enumerate(self.evaluation.opened, 1)}
        return {levels[step] if step else 0: met for step, met in found.items()}

    def _ledger(self, kept: Kept, letters: LetterCounts, made: WrittenRows | None) -> Ledger:
        witnesses = self.evidence_jobs.witnesses
        account = Account(self.evaluation, self.totals, kept, letters, witnesses)
        marked = made is not None and made.level is None
        checks = self.working.checks(kept) if self.working is not None and made else []
        closed = account.close(self._passed(kept, made), marked=marked)
        return Ledger(
            run_id=self.run.run_id,
            asset=self.asset.name,
            inputs=tuple(self._account(name) for name in self.accounted),
            partitions=closed.partitions,
            sub_ledgers=closed.sub_ledgers,
            checks=(*closed.checks, *checks),
            evidence=self.evidence.value,
        )

    def unfinished_ledger(self) -> Ledger:
        """When the asset stopped half way: the door, if it was measured, and no fate."""
        measured = [n for n in self.accounted if n in self.doors and _succeeded(self.doors[n])]
        return Ledger(
            run_id=self.run.run_id,
            asset=self.asset.name,
            inputs=tuple(map(self._account, measured)),
            partitions=(),
            evidence=self.evidence.value,
            completed=False,
        )

    def _account(self, name: str) -> InputAccount:
        source, door = self.inputs[name], self.doors[name].result()
        return InputAccount(
            dataset=os.path.relpath(source.files.root, self.project),
            key_field=",".join(source.key) or "@file#ordinal",
            content_hash=self.hashes[name].result(),
            digest=door.digest,
            null_keys=door.null_keys,
            duplicate_keys=self.repeated.counts.get(name),
            named_by_place=source.places is not None,
            blank_lines=door.blank_lines,
        )


def withdraw(folder: Path) -> None:
    """Remove what only a result that was proved may leave."""
    for name in ("output", "outputs"):
        clear(folder / name)
    (folder / OUTPUTS).unlink(missing_ok=True)


def _content_hash(source: Input) -> str:
    return source.files.content_hash


def _succeeded(measured: Future[Door]) -> bool:
    return measured.done() and not measured.cancelled() and measured.exception() is None


def _validates_groups(plan: Frame) -> bool:
    steps = list(plan.steps())
    grouped = [n for n, step in enumerate(steps) if _groups(step)]
    if grouped and any(map(_rejects, steps[grouped[0] :])):
        return True
    return any(_validates_groups(step.other) for step in steps if isinstance(step, Append))


def _groups(step: Step) -> bool:
    if isinstance(step, Append):
        return any(map(_groups, step.other.steps()))
    return isinstance(step, GroupBy)


def _rejects(step: Step) -> bool:
    return isinstance(step, Expect) or (isinstance(step, Join) and step.unmatched == "error")
