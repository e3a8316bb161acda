"""One asset in one run: evaluate, settle, prove, and only then put the output in its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.domain.fate import Evidence, Fate
from tallyman.domain.frame import Frame
from tallyman.domain.ledger import InputAccount, KeyDigest, Ledger
from tallyman.domain.pipeline import Asset
from tallyman.domain.plan import accounted_inputs, morphism_ids
from tallyman.domain.run import RunIdentity
from tallyman.domain.step import Expect, GroupBy, Join, Step
from tallyman.domain.threshold import Halt, Thresholds
from tallyman.engine import settle
from tallyman.engine.account import Account, Totals, rejected_by_groups
from tallyman.engine.book import Book
from tallyman.engine.columns import ERROR, KEY, LIVE, PART, REJECTIONS, col
from tallyman.engine.cuts import Opened
from tallyman.engine.evaluate import Evaluation
from tallyman.engine.reads import columns_read
from tallyman.engine.run_folder import write_json
from tallyman.engine.segment import admit
from tallyman.engine.source import Door, Input, LinesInput
from tallyman.engine.stage import Stage
from tallyman.errors import (
    EmptyInput,
    JoinFanOut,
    ReferenceRejected,
    StepFailed,
    StructuralError,
    ThresholdExceeded,
)

SMALL = 1_000_000
"""Up to this many records, repeated keys are counted in the run; beyond, they are unknown."""
FEWEST = 1_000
"""Fewer records than this are no sample: the thresholds judge them at the end."""
SAMPLE = 100


@dataclass
class Outcome:
    """What an asset's run left: its ledger always, its output when nothing stood against it."""

    ledger: Ledger
    rejections: int
    rejections_by_type: Mapping[str, int]
    rows_out: int = 0
    error: ThresholdExceeded | None = None


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
    staging: Path
    progress: Callable[[str], None] = lambda _: None
    totals: Totals = field(default_factory=dict)
    halt: Halt | None = None

    def __post_init__(self) -> None:
        if self.evidence is Evidence.DIGEST and _validates_groups(self.plan):
            # A group that fails afterwards makes its records ERROR: they must be known by name.
            self.evidence = Evidence.KEYS
        self._begin()

    def _begin(self) -> None:
        self.totals.clear()
        self.halt = None
        self.book = Book(self.asset.name)
        self.settlement = settle.Settlement(self.run, self.book, self.folder, self.staging)
        self.accounted = accounted_inputs(self.plan)
        self.reads = {
            name: columns_read(self.plan, name, self.inputs[name].schema.names)
            for name in self.accounted
        }
        self.evaluation = Evaluation(
            book=self.book,
            inputs=self.inputs,
            references=self._reference,
            morphism_ids=morphism_ids(self.plan),
            evidence=self.evidence,
            folder=str(self.staging),
            on_stage=self._after_segment,
            reads=self.reads,
        )
        self.pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix=self.asset.name)
        self.doors: dict[str, Future[Door]] = {}
        self.hashes: dict[str, Future[str]] = {}
        self.settling: list[Future[Any]] = []
        self.letters: Future[list[dict[str, object]]] | None = None
        self.failed_groups: dict[int, DataFrame] = {}
        self.written: tuple[Stage, Future[dict[int, KeyDigest]]] | None = None

    def reread(self) -> bool:
        """Start over with the careful reading of inputs that have one; False when there is none."""
        careful = {name: source.slower() or source for name, source in self.inputs.items()}
        if all(careful[name] is source for name, source in self.inputs.items()):
            return False
        for place in (self.folder, self.staging):
            settle.clear(place)
            place.mkdir()
        self.inputs = careful
        self._begin()
        return True

    # ---- the order of things -------------------------------------------------------------

    def execute(self) -> Outcome:
        try:
            self._break_early()
            for name, source in self.inputs.items():
                self.hashes[name] = self.pool.submit(source.files.content_hash)
            for name in set(self.accounted):
                self.doors[name] = self.pool.submit(self.inputs[name].door)
            self.progress("evaluating")
            output = self.staging / "output"
            final = self._evaluate(output)
            self.progress("settling")
            summary = self._settled()
            self.progress("proving")
            return self._conclude(final, output, summary)
        except Exception as error:
            if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
                raise
            raise StepFailed(self.asset.name, _reason(error)) from error
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def _evaluate(self, output: Path) -> Stage | None:
        try:
            flow = self.evaluation.flow(self.plan)
            if flow.untouched_groups:
                self._settle()  # every segment is written: evidence and output side by side
            final = self.evaluation.output(flow, str(output))
            self._check_segment()
            return final
        except _Halted:
            return None
        finally:
            if not self.settling:
                self._settle()

    def _after_segment(self, stage: Stage) -> None:
        """Count what was written, while the next job already starts on it."""
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
                step = part.morphism_id.rpartition(".")[0]
                raise JoinFanOut(self.asset.name, step, found[number].count, keys)
        self.halt = self.thresholds.check(self._errors(), self.records_in)
        if self.halt and self.thresholds.on_halt == "rollback":
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
        window = self.thresholds.window
        rate = max(self.thresholds.breaker, self.thresholds.percentage)
        for name in dict.fromkeys(self.accounted):
            source = self.inputs[name]
            if not window or not isinstance(source, LinesInput):
                continue
            first = admit(source, self.book, self.reads[name]).rows.limit(window)
            seen, bad = _seen_and_bad(first)
            if seen < FEWEST or bad / seen <= rate:
                continue
            sample = first.where(F.col(PART) == ERROR).limit(SAMPLE)
            self._write_letters(sample.select(KEY, REJECTIONS, *settle.no_group(0)))
            raise StructuralError(self.asset.name, name, bad, seen, rate)
        self.book.rules.clear()

    def _reference(self, name: str) -> DataFrame:
        """A reference is pinned and has no ledger: every record of it must be readable."""
        source = self.inputs[name]
        rows = source.records()
        if source.rejects:
            admitted = admit(source, Book(name), source.schema.names).rows
            if count := _seen_and_bad(admitted)[1]:
                bad = admitted.where(F.col(PART) == ERROR).orderBy(KEY)
                shown = bad.select(KEY, *map(col, source.schema.names)).limit(3).collect()
                raise ReferenceRejected(name, count, [row[KEY] for row in shown])
        return rows.select(*map(col, source.schema.names))

    # ---- settling -------------------------------------------------------------------------

    def _settle(self) -> None:
        """Start writing dead letters, filtered keys and other evidence, side by side."""
        ended, self.failed_groups = self._ended_as_error()
        if ended:
            rows = reduce(DataFrame.unionByName, ended)
            self.letters = self.pool.submit(self._write_letters, rows)
            self.settling.append(self.letters)
        parts = [n for n, p in self.book.parts.items() if p.fate is Fate.FILTERED]
        dropped = [s.dropped() for s in self.evaluation.staged if s.parts() & set(parts)]
        if dropped:
            rows = reduce(DataFrame.unionByName, dropped)
            self.settling.append(self.pool.submit(self.settlement.write_filtered, rows, parts))
        for opened in self.evaluation.opened:
            self.settling += self._keep_evidence(opened, self.failed_groups)

    def _settled(self) -> list[dict[str, object]]:
        """Wait for the evidence; the summary of the dead letters."""
        for job in self.settling:
            job.result()
        for number in (n for n, p in self.book.parts.items() if p.fate is Fate.FILTERED):
            self.settlement.make_filtered(number)
        for opened in self.evaluation.opened:
            stored = opened.groups is None and opened.children is None
            if stored and id(opened) not in self.failed_groups:
                self.settlement.keep_keys(opened)
        return self.letters.result() if self.letters else []

    def _keep_evidence(
        self, opened: Opened, failed_groups: Mapping[int, DataFrame]
    ) -> list[Future[object]]:
        if opened.groups is not None:
            return [self.pool.submit(self.settlement.write_groups, opened)]
        if opened.children is not None:
            return [self.pool.submit(self.settlement.write_children, opened)]
        if id(opened) in failed_groups:
            groups = failed_groups[id(opened)].select(F.col(KEY).alias(settle.GROUP))
            return [self.pool.submit(self.settlement.rewrite_keys, opened, groups)]
        return []

    def _ended_as_error(self) -> tuple[list[DataFrame], dict[int, DataFrame]]:
        """Rows whose rejections are kept; and, by the cut that made them, groups that failed."""
        ended: list[DataFrame] = []
        failed: dict[int, DataFrame] = {}
        for stage in self.evaluation.staged:
            if ERROR not in stage.parts():
                continue
            opened = self.evaluation.opened[stage.level - 1] if stage.level else None
            if opened and opened.unit == "group":
                groups = settle.failed_rows(stage)
                failed[id(opened)] = groups
                ended.append(settle.failed_sources(opened, groups))
            else:
                ended.append(settle.failed_rows(stage))
        return ended, failed

    def _write_letters(self, ended: DataFrame) -> list[dict[str, object]]:
        letters, summary = self.settlement.rejections(ended)
        counted = self.pool.submit(summary.collect)  # a row per rule
        self.settlement.write_letters(letters)
        found = [row.asDict() for row in counted.result()]
        found.sort(key=lambda row: (row["error_type"], row["morphism_path"]))
        write_json(self.folder / "errors" / "_summary.json", found)
        return found

    # ---- the ledger -----------------------------------------------------------------------

    def _conclude(
        self, final: Stage | None, output: Path, summary: Sequence[Mapping[str, object]]
    ) -> Outcome:
        rejected = rejected_by_groups(self.evaluation, self.totals)
        self.halt = self.halt or self.thresholds.check(
            self._errors() + sum(d.count for d in rejected.values()), self.records_in
        )
        reached = final is None and output.exists() and not self.halt
        live = settle.rows_in(output) if reached else None
        ledger = self._ledger(final, rejected, live)
        by_type: dict[str, int] = {}
        for row in summary:
            kind = str(row["error_type"])
            by_type[kind] = by_type.get(kind, 0) + int(str(row["count"]))
        outcome = Outcome(ledger, sum(by_type.values()), by_type)
        for source in self.inputs.values():
            source.files.check_unchanged()
        if self.halt:
            outcome.error = ThresholdExceeded(
                self.asset.name, self.halt.reason, self.halt.errors, self.halt.threshold
            )
        elif ledger.records_in == 0 and self.thresholds.on_empty == "halt":
            outcome.error = EmptyInput(self.asset.name)
        self._output = Path(final.live_folder()) if final is not None else output
        return outcome

    def publish(self, outcome: Outcome) -> None:
        """Put the output in its place: only after the ledger balanced."""
        target = self.folder / "output"
        settle.move_parts(self._output, target)
        outcome.rows_out = settle.rows_in(target)

    def _ledger(
        self, final: Stage | None, rejected: Mapping[int, KeyDigest], live: int | None
    ) -> Ledger:
        passed = None if live is None else KeyDigest(live)
        if final is not None:
            passed = self.totals[id(final)].get(LIVE, KeyDigest())
        partitions, subs = Account(self.evaluation, self.totals, rejected, self.folder).close(
            passed
        )
        return Ledger(
            run_id=self.run.run_id,
            asset=self.asset.name,
            inputs=tuple(self._account(name) for name in self.accounted),
            partitions=partitions,
            sub_ledgers=subs,
            evidence=self.evidence.value,
        )

    def unfinished_ledger(self) -> Ledger:
        """When the asset stopped half way: the door, if it was measured, and no fate."""
        measured = [n for n in self.accounted if n in self.doors and _succeeded(self.doors[n])]
        return Ledger(
            run_id=self.run.run_id,
            asset=self.asset.name,
            inputs=tuple(self._account(name, count_repeated=False) for name in measured),
            partitions=(),
            evidence=self.evidence.value,
            completed=False,
        )

    def locations(self) -> dict[str, Path]:
        """Where evidence lies before it is published, by the place it will have."""
        return {"output/": self._output}

    def _account(self, name: str, count_repeated: bool = True) -> InputAccount:
        source, door = self.inputs[name], self.doors[name].result()
        repeated = None
        if count_repeated and door.digest.count <= SMALL:
            repeated = repeated_keys(source.keys())
        return InputAccount(
            dataset=os.path.relpath(source.files.root, self.folder.parent.parent.parent),
            key_field=",".join(source.key) or "@file#ordinal",
            content_hash=self.hashes[name].result(),
            digest=door.digest,
            null_keys=door.null_keys,
            duplicate_keys=repeated,
            blank_lines=door.blank_lines,
        )


def _seen_and_bad(admitted: DataFrame) -> tuple[int, int]:
    """Counted over every column: a column Spark may skip reading cannot fail."""
    values = [F.count(col(name)) for name in admitted.columns if name not in (PART, REJECTIONS)]
    bad = F.count_if(F.col(PART) == ERROR).alias("bad")
    row = admitted.agg(F.count(F.lit(1)).alias("seen"), bad, *values).first()
    return (row["seen"], row["bad"]) if row else (0, 0)


def _succeeded(measured: Future[Door]) -> bool:
    return measured.done() and not measured.cancelled() and measured.exception() is None


def repeated_keys(keys: DataFrame) -> int:
    """Records whose key an earlier record already has."""
    found = keys.groupBy(KEY).count().agg(F.sum(F.col("count") - 1).alias("n")).first()
    return int(found["n"] or 0) if found else 0


def _validates_groups(plan: Frame) -> bool:
    steps = list(plan.steps())
    grouped = [n for n, step in enumerate(steps) if isinstance(step, GroupBy)]
    return bool(grouped) and any(map(_rejects, steps[grouped[0] :]))


def _rejects(step: Step) -> bool:
    return isinstance(step, Expect) or (isinstance(step, Join) and step.unmatched == "error")


def _reason(error: Exception) -> str:
    text = str(error).strip()
    for line in text.splitlines():
        if line.strip():
            return line.strip()[:500]
    return type(error).__name__
