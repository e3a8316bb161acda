"""One asset in one run: evaluate, place the output, write evidence, close the account."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tallyman.domain.account.ledger import Ledger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import accounted_inputs, has_working_set, step_ids
from tallyman.domain.definition.step import Split
from tallyman.engine.asset.closing import AssetOutcome, Closing, by_type
from tallyman.engine.asset.split_outputs import write_outputs
from tallyman.engine.asset.volumes import Volumes
from tallyman.engine.asset.work import Work
from tallyman.engine.columns.reads import columns_read
from tallyman.engine.evidence import breaker
from tallyman.engine.evidence.content import Content, measure_files
from tallyman.engine.evidence.evidence_jobs import EvidenceJobs
from tallyman.engine.evidence.key_check import KeyCheck, KeyedOutput
from tallyman.engine.evidence.write import EvidenceWriter, clear, move_files
from tallyman.engine.evidence.year_check import refuse_far_years
from tallyman.engine.files.run_folder import TRACE
from tallyman.engine.observer import SILENT, Observer
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.reference import References
from tallyman.engine.segment.segment_records import SegmentRecords
from tallyman.engine.segment.stage import WrittenRows
from tallyman.engine.segment.stage_checks import Halted, StageChecks
from tallyman.engine.source.doors import Doors
from tallyman.engine.source.read_failure import unreadable
from tallyman.engine.source.source import Input
from tallyman.engine.spark.failure import SparkFailure, failure_of
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.trace import Tracer
from tallyman.engine.working.working_run import WorkingRun
from tallyman.errors import StepFailed, StructuralError

SPARK_ERRORS = ("pyspark", "py4j", "grpc")
"""Packages of exceptions that mean that Spark could not evaluate a step."""
MALFORMED = "MALFORMED_RECORD_IN_PARSING"
"""The class of Spark's error for a text that does not fit, where that is an error."""


def of_spark(error: BaseException) -> bool:
    """True if an error came from Spark, in this process or from a server."""
    return type(error).__module__.split(".")[0] in SPARK_ERRORS


class AssetRun:
    """The evaluation of one piece of work. It is complete when constructed; `execute` runs it."""

    def __init__(
        self, work: Work, inputs: Mapping[str, Input], observer: Observer = SILENT
    ) -> None:
        self._asked = work
        self.work = work = work.evaluated()
        self.observer = observer
        book = Book(work.asset.name, redaction=work.redaction)
        self.pool = ThreadPoolExecutor(8, work.asset.name, initializer=self._mark_jobs)
        accounted = accounted_inputs(work.plan)
        self.doors = Doors(inputs, accounted, self.pool, work.folders.project)
        self.references = References(book, work.plan, inputs)
        self.volumes = Volumes(work, self.doors, self.references)
        self.evaluation = self._evaluation(book)
        result, scratch = work.folders.result, work.folders.scratch
        writer = EvidenceWriter(work.run, book, result, scratch, work.partition_label)
        self.evidence_jobs = EvidenceJobs(writer, self.evaluation, self.pool)
        self.key_check = KeyCheck(work.asset, work.plan, self.pool, work.redaction, work.stays)
        works = has_working_set(work.asset.trace, work.plan)
        self.working = self._working_run() if works else None
        self.closing = Closing(
            work,
            self.doors,
            self.evaluation,
            self.evidence_jobs,
            self.working,
            self.references,
        )

    def _evaluation(self, book: Book) -> Evaluation:
        work, doors = self.work, self.doors
        return Evaluation(
            book=book,
            inputs=doors.inputs,
            step_ids=step_ids(work.plan),
            evidence=work.evidence,
            records=SegmentRecords(
                folder=work.folders.scratch,
                made_from=work.made_from,
                attempt=work.attempt,
                pool=self.pool,
                check_inputs=doors.check_unchanged,
            ),
            checks=StageChecks(work.thresholds, doors, self.pool),
            reads={name: self._columns_read(name) for name in doors.accounted},
            references=self.references.rows,
            # Steps with a trace are reported later, when their trace is durable.
            observer=SILENT if work.traced else self.observer,
        )

    def _columns_read(self, name: str) -> set[str]:
        names = self.doors.inputs[name].schema.names
        # Load all columns of a traced row, because its recorded state is the whole row.
        return set(names) if self.work.traced else columns_read(self.work.plan, name, names)

    def _working_run(self) -> WorkingRun:
        work, folders = self.work, self.work.folders
        ids = RowIds(work.run, work.asset.name, work.target.partition)
        tracer = None
        if work.traced:
            place, hidden = folders.result / TRACE, work.redaction
            tracer = Tracer(ids, place, folders.scratch, self.pool, self.observer, hidden)
        inputs, evaluation = self.doors.inputs, self.evaluation
        return WorkingRun(work.plan, inputs, evaluation, ids, tracer, folders.scratch)

    def _mark_jobs(self) -> None:
        for tag in (self.work.tag, self.work.attempt_tag):
            if tag:
                self.doors.spark().addTag(tag)

    def _unmark_jobs(self) -> None:
        """Take the attempt's tag from this thread, which goes on to another target."""
        if self.work.attempt_tag:
            self.doors.spark().removeTag(self.work.attempt_tag)

    def careful(self) -> AssetRun | None:
        """Start over with a slower way of reading the inputs; None if no input has one."""
        inputs = self.doors.careful()
        if inputs is None:
            return None
        for place in (self.work.folders.result, self.work.folders.scratch):
            clear(place)
            place.mkdir()
        # Segments of the other way of reading must never meet these.
        return AssetRun(replace(self._asked, made_from={}), inputs, self.observer)

    # ---- the order of things -------------------------------------------------------------

    def execute(self) -> AssetOutcome:
        self._mark_jobs()
        try:
            self.references.open(self.pool)
            self.volumes.check_references()
            self.references.refuse_repeated(self.pool)
            self._break_early()
            self.doors.begin()
            self.volumes.check_early()
            self.evaluation.inputs = self.doors.inputs
            self.evaluation.records.find()
            self.observer.phase("evaluating")
            made, content = self._evaluate()
            self.observer.phase("settling")
            self.evidence_jobs.wait()
            self.observer.phase("proving")
            return self._conclude(made, content)
        except Exception as error:
            if MALFORMED in str(error):
                self.doors.forget()
            if (found := unreadable(error, self.doors.inputs.values())) is not None:
                raise found from error
            if not of_spark(error):
                raise
            raise self._explained(error) from error
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self._unmark_jobs()

    def _explained(self, error: Exception) -> StepFailed:
        """Say which step failed and why; keep the whole message, unless it may show values that are
        redacted."""
        redaction, place = self.work.redaction, self.work.folders.result
        failure = failure_of(error, redaction.reason)
        if not redaction.columns:
            with contextlib.suppress(OSError):
                (place / "SPARK_ERROR.txt").write_text(f"{error}\n", encoding="utf-8")
        step = _failed_step(self.work.plan, failure)
        name, advice = self.work.asset.name, failure.advice
        return StepFailed(name, failure.reason, step=step, advice=advice)

    def _break_early(self) -> None:
        """Apply the circuit breaker: check the first records before the dead letters fill up."""
        thresholds, book = self.work.thresholds, self.evaluation.book
        rate = max(thresholds.breaker, thresholds.percentage)
        for name in dict.fromkeys(self.doors.accounted):
            broken = breaker.unreadable(self.doors.inputs[name], book, thresholds.window, rate)
            if broken is not None:
                self.evidence_jobs.write_letters(broken.sample)
                self.closing.letters(self.closing.kept())
                raise StructuralError(self.work.asset.name, name, broken.bad, broken.seen, rate)
        book.rules.clear()

    def _evaluate(self) -> tuple[WrittenRows | None, Future[Content] | None]:
        """Evaluate all steps and place the output; return nothing if a threshold halted the
        asset.
        """
        try:
            made = self._written(self.work.folders.scratch / "output")
            self.evaluation.checks.check()
            self.evaluation.report_reached()
            return made, self._place_output(made)
        except Halted:
            return None, None
        finally:
            if not self.evidence_jobs.jobs:
                self.evidence_jobs.start()

    def _written(self, folder: Path) -> WrittenRows:
        if self.working is not None:
            return self.working.evaluate(folder)
        flow = self.evaluation.flow(self.work.plan)
        if not flow.untouched_groups:
            return WrittenRows.of_stage(self.evaluation.output(flow))
        self.evidence_jobs.start()  # all segments are written: write evidence alongside the output
        rows = self.evaluation.output_groups(flow, str(folder))
        return WrittenRows(folder, rows, flow.level, flow.group_columns)

    def _place_output(self, made: WrittenRows) -> Future[Content]:
        """Move the output to its place and start measuring it while evidence is written."""
        folders = self.work.folders
        move_files(made.folder, folders.output)
        if self.working is not None:
            self.working.keep_outputs(folders.result, self.work.partition_label)
        spark, place = self.doors.spark(), folders.output
        if isinstance(self.work.plan.step, Split):
            write_outputs(spark, self.work.plan.step, folders, made.schema)
        inside = self.work.in_partition()
        key = self.evaluation.output_key
        content = self.pool.submit(measure_files, spark, place, made.schema, inside, key)

        rows = KeyedOutput(spark, place, made.schema, folders.scratch)
        self.key_check.begin(rows, self._kept_key(made), self.doors.every_key_counted)
        return content

    def _kept_key(self, made: WrittenRows) -> tuple[str, ...]:
        """List the columns that hold the source key, if each row of the output is a record of the
        only input.
        """
        own = made.level == 0 and len(self.doors.accounted) == 1
        return self.evaluation.output_key if own else ()

    # ---- the ledger ----------------------------------------------------------------------

    def _conclude(self, made: WrittenRows | None, content: Future[Content] | None) -> AssetOutcome:
        kept = self.closing.kept()
        letters = self.closing.letters(kept)
        measured = content.result() if content is not None else None
        ledger = self.closing.ledger(kept, letters, made, measured)
        error = self.closing.against(ledger, letters) or self.volumes.against()
        warnings = self.closing.warnings() if made is not None else ()
        rows_out = kept.rows("output") if content is not None else 0
        self.doors.check_unchanged()
        proved = measured is not None and ledger.digests_agree
        self.doors.remember(self.closing.rejecting(letters) if proved else None)
        reused = self.evaluation.records.summary()
        return AssetOutcome(
            ledger,
            by_type(letters),
            measured,
            rows_out,
            error,
            warnings,
            reused,
            self.volumes.warnings(),
            self.volumes.records_read(),
        )

    def refuse_far_years(self) -> None:
        """Refuse an output with dates that Iceberg and Python cannot hold."""
        work = self.work
        beside = sorted(p for p in (work.folders.result / "outputs").glob("*") if p.is_dir())
        folders = [work.folders.output, *beside]
        given = (self.doors.spark(), str(work.target), folders, work.asset.key, work.redaction)
        refuse_far_years(*given)

    def unfinished_ledger(self) -> Ledger:
        return self.closing.unfinished_ledger()


def _failed_step(plan: Frame, failure: SparkFailure) -> str | None:
    """Return the id of the only step whose expressions contain what the error names; if it names
    nothing, of the only step that has expressions."""
    words = [word for word in (failure.fragment, failure.function) if word] or [""]
    found = [
        name
        for frame, name in step_ids(plan).items()
        if frame.step is not None
        and any(word in one for one in frame.step.expressions() for word in words)
    ]
    return found[0] if len(found) == 1 else None
