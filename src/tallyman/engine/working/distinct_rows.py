"""Rows of a trace have distinct keys: their ids follow from them.

The door often knows it of the records, from this run or from an earlier one that read the same
bytes. Only if it does not, the rows are compared.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import Union
from tallyman.engine.evidence.kept_by_spark import output_key
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, SYSTEM
from tallyman.engine.segment.evaluate import Evaluation
from tallyman.engine.working.changes import Member
from tallyman.engine.working.trace_layout import mark
from tallyman.engine.working.trace_rows import marks
from tallyman.errors import RowsNotDistinct

WITHIN = "_tm_within"


@dataclass
class DistinctRows:
    """The check of one target. `loaded` is the plan of the rows that were loaded."""

    evaluation: Evaluation
    asset: str
    loaded: Frame
    _checks: list[Future[None]] = field(default_factory=list)

    def check(self, member: Member) -> None:
        """Check the rows of a member, after its first segment was written. Call it before the
        segment is moved.
        """
        if not self._known(member):
            pool = self.evaluation.checks.pool
            self._checks.append(pool.submit(self._refuse_repeated, member))

    def wait(self) -> None:
        for check in self._checks:
            check.result()

    def _known(self, member: Member) -> bool:
        """True if the rows are the records of one input, and the door found no key twice."""
        repeated = self.evaluation.checks.doors.repeated
        return self._is_of_records(member) and repeated.counts.get(self.loaded.input) == 0

    def _is_of_records(self, member: Member) -> bool:
        united = any(isinstance(step, Union) for step in self.loaded.steps())
        return not member.born and not member.flow.level and not united

    def _refuse_repeated(self, member: Member) -> None:
        """Find repeated keys with one shuffle of hashes; compare keys only if two hashes are
        equal.
        """
        rows = _keyed(member)
        hashes = rows.groupBy(F.xxhash64(KEY).alias("h")).count().where("count > 1")
        if not hashes.limit(1).count():
            self._remember(member)
            return
        # Records that ended before the first step are not among the rows.
        again = rows.where(WITHIN).groupBy(KEY).count().where("count > 1")
        if count := again.count():
            shown = [row[KEY] for row in again.orderBy(KEY).limit(3).collect()]
            raise RowsNotDistinct(self.asset, member.born, count, shown)

    def _remember(self, member: Member) -> None:
        """Let the door know that no key of the input repeats, if the rows were all its records: no
        segment was written before theirs.
        """
        evaluation, name = self.evaluation, self.loaded.input
        first = evaluation.staged and evaluation.staged[0].path == member.stages[0].path
        if first and self._is_of_records(member):
            doors = evaluation.checks.doors
            counts = {**doors.repeated.counts, name: 0}
            doors.repeated = replace(doors.repeated, counts=counts)


def _keyed(member: Member) -> DataFrame:
    rows, layout = member.stages[0].read(), member.layout
    assert layout is not None
    in_output = SYSTEM in rows.columns
    key = output_key(member.flow.key_columns or ()) if in_output else KEY
    names = [f"{SYSTEM}.{mark(n)}" if in_output else marks(n) for n in range(layout.words)]
    touched = reduce(Column.__or__, (F.col(name) > 0 for name in names))
    within = (F.col(PART) == LIVE) | F.coalesce(touched, F.lit(False))
    return rows.select(F.expr(key).alias(KEY), within.alias(WITHIN))
