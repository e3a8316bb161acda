"""A witness for the trace: what it must contain, counted on the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.ledger import Check, KeyDigest
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.evidence.kept_by_spark import output_key
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, SYSTEM
from tallyman.engine.files import parquet
from tallyman.engine.segment.ended import at
from tallyman.engine.segment.stage import Stage
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.engine.working.changes import Member
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.trace_layout import Layout, mark
from tallyman.engine.working.trace_rows import marks


@dataclass(frozen=True, slots=True)
class Expected:
    """The trace of the rows of one member in one segment; `number` is the place of the member among
    those of the segment.
    """

    seqs: tuple[int, ...]
    number: int
    member: Member
    stage: Stage
    layout: Layout

    @property
    def what(self) -> str:
        first, last = self.seqs[0], self.seqs[-1]
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        return f"trace of {steps}, rows of member {self.number}"

    @property
    def is_output(self) -> bool:
        """True if the live rows of the segment are the output, and were moved to its place."""
        return self.layout.row.startswith(f"{SYSTEM}.")


@dataclass
class TraceWitness:
    """Expected rows of a trace: each touched row once, with its id and marks. `place` is the folder
    of the trace.
    """

    place: Path
    ids: RowIds
    pool: ThreadPoolExecutor
    _expected: list[Expected] = field(default_factory=list)

    def expect(self, seqs: Sequence[int], number: int, member: Member) -> None:
        """Expect each row of a member that a segment's steps touched."""
        assert member.layout is not None
        stage = member.stages[-1]
        self._expected.append(Expected(tuple(seqs), number, member, stage, member.layout))

    def checks(self, kept: Kept) -> Iterator[Check]:
        """Compare the files of the trace with the rows they were written with."""
        wanted = [self.pool.submit(self._wanted, one, kept) for one in self._expected]
        for one, counted in zip(self._expected, wanted, strict=True):
            yield Check(what=one.what, expected=counted.result(), found=self._found(one, kept))

    def _wanted(self, one: Expected, kept: Kept) -> KeyDigest:
        """Digest the rows that were touched, where they are now."""
        columns = one.member.flow.key_columns or ()
        if not one.is_output:
            return self._digest(one, one.stage.read(), F.col(KEY), marks)
        files = [str(file) for file in kept.files("output")]
        live = one.stage.spark.read.schema(one.stage.schema).parquet(*files)
        ended = one.stage.read().where(F.col(PART) != LIVE)
        return sum(
            (
                self._digest(one, rows, output_key(rows, columns), lambda n: f"{SYSTEM}.{mark(n)}")
                for rows in (live, ended)
            ),
            KeyDigest(),
        )

    def _digest(
        self, one: Expected, rows: DataFrame, key: Column, named: Callable[[int], str]
    ) -> KeyDigest:
        held = [F.col(named(word)) for word in range(one.layout.words)]
        touched = reduce(Column.__or__, (word > 0 for word in held[1:]), held[0] > 1)
        if one.layout.content["created"]:
            touched = F.col(PART) == LIVE
        text = _text(self.ids.low(one.member, key), held)
        return digest.of_keys(rows.where(touched).select(text.alias(KEY)))

    def _found(self, one: Expected, kept: Kept) -> KeyDigest:
        """Digest the files of the trace."""
        folder = self.place / f"operation_seq={one.seqs[0]}"
        files = sorted(folder.glob(f"rows-{one.number:02d}-*.parquet"))
        columns = [one.layout.id, *one.layout.marks]
        if not files:
            return KeyDigest()
        if parquet.few(parquet.rows_in(files)):
            held = parquet.table(files, columns)
            rows = zip(*(at(held, name).to_pylist() for name in columns), strict=True)
            return digest_of("/".join(map(str, row)) for row in rows)
        found = kept.spark().read.parquet(*map(str, files))
        text = _text(F.col(columns[0]), [F.col(name) for name in columns[1:]])
        return digest.of_keys(found.select(text.alias(KEY)))


def _text(row_id: Column, held: Sequence[Column]) -> Column:
    return F.concat_ws("/", *(value.cast("string") for value in (row_id, *held)))
