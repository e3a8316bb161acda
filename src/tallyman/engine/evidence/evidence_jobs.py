"""Jobs that write evidence, all kinds in parallel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.evidence import kept_by_spark, local_writer, write
from tallyman.engine.expressions.column_names import ERROR, KEY, LIVE, PART
from tallyman.engine.files import parquet
from tallyman.engine.segment.cuts import Opened
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.group_key import SOURCE_KEY
from tallyman.engine.segment.stage import Stage


@dataclass
class EvidenceJobs:
    """Few rows are written by `here`, in this process; many by `writer`, with Spark."""

    writer: write.EvidenceWriter
    evaluation: Evaluation
    pool: ThreadPoolExecutor
    jobs: list[Future[Any]] = field(default_factory=list)
    failed_groups: dict[int, DataFrame] = field(default_factory=dict)
    """Failed groups, by their level."""
    witnesses: dict[str, Future[KeyDigest]] = field(default_factory=dict)
    """The expected evidence of each step, measured on the rows it was made from."""

    @property
    def here(self) -> local_writer.LocalWriter:
        return local_writer.LocalWriter(self.writer)

    def start(self) -> None:
        """Start writing dead letters, filtered keys and other evidence, in parallel."""
        self.failed_groups = self._failed_groups()
        if self._with_rows_in({ERROR}):
            self.jobs.append(self.pool.submit(self._keep_letters))
        if self._with_rows_in(self._filtered):
            self.jobs.append(self.pool.submit(self._keep_filtered))
        for level, opened in enumerate(self.evaluation.opened, 1):
            self.jobs += self._keep_evidence(opened, self.failed_groups.get(level))
            if measured := self._witness(opened, self.failed_groups.get(level)):
                self.witnesses[opened.step_id] = self.pool.submit(measured)

    def wait(self) -> None:
        """Wait until all evidence is in its place."""
        for job in (*self.jobs, *self.witnesses.values()):
            job.result()
        for number in self._filtered:
            self.writer.make_filtered(number)
        for level, opened in enumerate(self.evaluation.opened, 1):
            if opened.kept_as_written and level not in self.failed_groups:
                self.evaluation.records.release(opened.stage)
                self.writer.keep_keys(opened)

    def _witness(self, opened: Opened, failed: DataFrame | None) -> Callable[[], KeyDigest] | None:
        """Choose a measurement to compare evidence with the rows it came from, if a separate job
        writes it. Evidence that is only moved needs no second measurement.
        """
        if opened.makes is not None:
            return partial(_made, opened.stage, opened.makes)
        if opened.matched is not None and opened.groups is not None:
            return partial(kept_by_spark.keys, opened.matched, SOURCE_KEY)
        if opened.matched is not None:
            return partial(kept_by_spark.pairs, opened.matched)
        if opened.links is not None or failed is not None:
            return partial(kept_by_spark.pairs, opened.rows())
        return None

    def _keep_evidence(self, opened: Opened, failed: DataFrame | None) -> list[Future[object]]:
        if opened.groups is not None:
            here = opened.readable_here
            return [self.pool.submit((self.here if here else self.writer).write_groups, opened)]
        if opened.children is not None:
            return [self.pool.submit(self.writer.write_children, opened)]
        if failed is not None:
            groups = failed.select(F.col(KEY).alias(write.GROUP))
            return [self.pool.submit(self.writer.rewrite_keys, opened, groups)]
        if opened.links is not None:
            return [self.pool.submit(self.writer.write_links, opened)]
        return []

    @property
    def _filtered(self) -> set[int]:
        """The parts of rows that a step filtered."""
        return {n for n, p in self.writer.book.parts.items() if p.fate is Fate.FILTERED}

    def _with_rows_in(self, parts: set[int]) -> list[Stage]:
        """List the stages in which rows ended in one of the parts."""
        ended = self.evaluation.checks.ended
        return [s for s in self.evaluation.staged if parts & ended(s).totals.keys()]

    def _keep_filtered(self) -> None:
        stages = self._with_rows_in(self._filtered)
        found = [self.evaluation.checks.ended(stage) for stage in stages]
        if all(ended.rows is not None for ended in found):
            self.here.write_filtered([ended.of(self._filtered) for ended in found])
        else:
            rows = reduce(DataFrame.unionByName, (stage.dropped() for stage in stages))
            self.writer.write_filtered(rows, sorted(self._filtered))

    def _keep_letters(self) -> None:
        stages = self._with_rows_in({ERROR})
        ended = [(s.level, self.evaluation.checks.ended(s)) for s in stages]
        records = sum(one.totals[ERROR].count for _, one in ended)
        known = not self.failed_groups and all(one.rows is not None for _, one in ended)
        if known and parquet.few(records, local_writer.LETTERS):
            self.here.write_letters([(level, one.of([ERROR])) for level, one in ended])
        else:
            self.write_letters(reduce(DataFrame.unionByName, map(self._failed, stages)))

    def _failed(self, stage: Stage) -> DataFrame:
        """Read the rows with rejections to keep; if groups failed, the rows in them."""
        made = self._made_groups(stage)
        failed = write.failed_rows(stage)
        return failed if made is None else write.failed_sources(made, failed)

    def _failed_groups(self) -> dict[int, DataFrame]:
        """Read the groups that failed, by level."""
        failed: dict[int, DataFrame] = {}
        for stage in self._with_rows_in({ERROR}):
            if self._made_groups(stage) is not None:
                groups, before = write.failed_rows(stage), failed.get(stage.level)
                failed[stage.level] = groups if before is None else before.unionByName(groups)
        return failed

    def _made_groups(self, stage: Stage) -> Opened | None:
        """Return the cut that made the rows of a stage, if they are groups."""
        opened = self.evaluation.opened[stage.level - 1] if stage.level else None
        return opened if opened and opened.unit == "group" else None

    def write_letters(self, ended: DataFrame) -> None:
        self.writer.write_letters(self.writer.rejections(ended))


def _made(stage: Stage, makes: Column) -> KeyDigest:
    """Count the children that must exist, on the rows as written; their parents alone determine
    which ones.
    """
    parents = stage.read().where(F.col(PART) == LIVE)
    found = parents.agg(F.sum(makes).alias("n")).first()
    return KeyDigest(int(found["n"] or 0) if found else 0)
