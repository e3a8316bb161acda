"""Writing what a run keeps of the rows that ended: all kinds of evidence side by side."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.domain.fate import Fate
from tallyman.engine import settle
from tallyman.engine.columns import ERROR, KEY
from tallyman.engine.cuts import Opened
from tallyman.engine.evaluate import Evaluation
from tallyman.engine.run_folder import write_json


@dataclass
class Settling:
    settlement: settle.Settlement
    evaluation: Evaluation
    pool: ThreadPoolExecutor
    jobs: list[Future[Any]] = field(default_factory=list)
    letters: Future[list[dict[str, object]]] | None = None
    failed_groups: dict[int, DataFrame] = field(default_factory=dict)

    def start(self) -> None:
        """Start writing dead letters, filtered keys and other evidence, side by side."""
        ended, self.failed_groups = self._ended_as_error()
        if ended:
            rows = reduce(DataFrame.unionByName, ended)
            self.letters = self.pool.submit(self.write_letters, rows)
            self.jobs.append(self.letters)
        parts = [n for n, p in self.settlement.book.parts.items() if p.fate is Fate.FILTERED]
        dropped = [s.dropped() for s in self.evaluation.staged if s.parts() & set(parts)]
        if dropped:
            rows = reduce(DataFrame.unionByName, dropped)
            self.jobs.append(self.pool.submit(self.settlement.write_filtered, rows, parts))
        for opened in self.evaluation.opened:
            self.jobs += self._keep_evidence(opened, self.failed_groups)

    def wait(self) -> list[dict[str, object]]:
        """Wait for the evidence; the summary of the dead letters."""
        for job in self.jobs:
            job.result()
        for number in (n for n, p in self.settlement.book.parts.items() if p.fate is Fate.FILTERED):
            self.settlement.make_filtered(number)
        for opened in self.evaluation.opened:
            if opened.kept_as_written and id(opened) not in self.failed_groups:
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
        if opened.links is not None:
            return [self.pool.submit(self.settlement.write_links, opened)]
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
                before = failed.get(id(opened))
                failed[id(opened)] = groups if before is None else before.unionByName(groups)
                ended.append(settle.failed_sources(opened, groups))
            else:
                ended.append(settle.failed_rows(stage))
        return ended, failed

    def write_letters(self, ended: DataFrame) -> list[dict[str, object]]:
        letters, summary = self.settlement.rejections(ended)
        counted = self.pool.submit(summary.collect)  # a row per rule
        self.settlement.write_letters(letters)
        found = [row.asDict() for row in counted.result()]
        found.sort(key=lambda row: (row["error_type"], row["morphism_path"]))
        write_json(self.settlement.folder / "errors" / "_summary.json", found)
        return found
