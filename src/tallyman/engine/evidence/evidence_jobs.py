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
from tallyman.engine.evidence import kept_by_spark, write
from tallyman.engine.expressions.column_names import ERROR, KEY, LIVE, PART
from tallyman.engine.segment.cuts import Opened
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.segment.group_key import SOURCE_KEY
from tallyman.engine.segment.stage import Stage


@dataclass
class EvidenceJobs:
    writer: write.EvidenceWriter
    evaluation: Evaluation
    pool: ThreadPoolExecutor
    jobs: list[Future[Any]] = field(default_factory=list)
    failed_groups: dict[int, DataFrame] = field(default_factory=dict)
    """Failed groups, by their level."""
    witnesses: dict[str, Future[KeyDigest]] = field(default_factory=dict)
    """The expected evidence of each step, measured on the rows it was made from."""

    def start(self) -> None:
        """Start writing dead letters, filtered keys and other evidence, in parallel."""
        ended, self.failed_groups = self._ended_as_error()
        if ended:
            rows = reduce(DataFrame.unionByName, ended)
            self.jobs.append(self.pool.submit(self.write_letters, rows))
        parts = [n for n, p in self.writer.book.parts.items() if p.fate is Fate.FILTERED]
        dropped = [s.dropped() for s in self.evaluation.staged if s.parts() & set(parts)]
        if dropped:
            rows = reduce(DataFrame.unionByName, dropped)
            self.jobs.append(self.pool.submit(self.writer.write_filtered, rows, parts))
        for level, opened in enumerate(self.evaluation.opened, 1):
            self.jobs += self._keep_evidence(opened, self.failed_groups.get(level))
            if measured := self._witness(opened, self.failed_groups.get(level)):
                self.witnesses[opened.step_id] = self.pool.submit(measured)

    def wait(self) -> None:
        """Wait until all evidence is in its place."""
        for job in (*self.jobs, *self.witnesses.values()):
            job.result()
        for number in (n for n, p in self.writer.book.parts.items() if p.fate is Fate.FILTERED):
            self.writer.make_filtered(number)
        for level, opened in enumerate(self.evaluation.opened, 1):
            if opened.kept_as_written and level not in self.failed_groups:
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
            return [self.pool.submit(self.writer.write_groups, opened)]
        if opened.children is not None:
            return [self.pool.submit(self.writer.write_children, opened)]
        if failed is not None:
            groups = failed.select(F.col(KEY).alias(write.GROUP))
            return [self.pool.submit(self.writer.rewrite_keys, opened, groups)]
        if opened.links is not None:
            return [self.pool.submit(self.writer.write_links, opened)]
        return []

    def _ended_as_error(self) -> tuple[list[DataFrame], dict[int, DataFrame]]:
        """List rows with rejections to keep; and failed groups by level."""
        ended: list[DataFrame] = []
        failed: dict[int, DataFrame] = {}
        for stage in self.evaluation.staged:
            if ERROR not in stage.parts():
                continue
            opened = self.evaluation.opened[stage.level - 1] if stage.level else None
            if opened and opened.unit == "group":
                groups = write.failed_rows(stage)
                before = failed.get(stage.level)
                failed[stage.level] = groups if before is None else before.unionByName(groups)
                ended.append(write.failed_sources(opened, groups))
            else:
                ended.append(write.failed_rows(stage))
        return ended, failed

    def write_letters(self, ended: DataFrame) -> None:
        self.writer.write_letters(self.writer.rejections(ended))


def _made(stage: Stage, makes: Column) -> KeyDigest:
    """Count the children that must exist, on the rows as written; their parents alone determine
    which ones.
    """
    parents = stage.read().where(F.col(PART) == LIVE)
    found = parents.agg(F.sum(makes).alias("n")).first()
    return KeyDigest(int(found["n"] or 0) if found else 0)
