"""A witness for the trace: what it must contain, counted on the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

from tallyman.domain.account.ledger import Check, KeyDigest
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.expressions.column_names import LIVE, PART
from tallyman.engine.segment.stage import Stage
from tallyman.engine.spark import digest
from tallyman.engine.working import changes
from tallyman.engine.working.changes import END, FIRST, Member

Event = tuple[str, int]
"""A kind of change and the number of its step: `("updated", 3)`."""


@dataclass
class TraceWitness:
    """Expected counts of a trace. `place` is its folder. Jobs run while the trace is written."""

    place: Path
    pool: ThreadPoolExecutor
    _expected: list[Future[dict[Event, KeyDigest]]] = field(default_factory=list)
    _steps: set[int] = field(default_factory=set)

    def segment(self, seqs: Sequence[int], member: Member, row_id: Column) -> None:
        """Expect the changes of a segment's steps to the rows of a member."""
        asked: dict[Event, Column] = {
            ("updated", seq): F.col(changes.event(seq)).isNotNull() for seq in member.written
        }
        asked |= {("deleted", seq): F.col(END) == seq for seq in seqs}
        if not member.born:
            asked |= {("baseline", seq): F.col(FIRST) == seq for seq in seqs}
        self._expect(seqs, member.stages[-1], row_id, asked)

    def created(self, seq: int, member: Member, row_id: Column) -> None:
        """Expect every row that a step created."""
        live = F.col(PART) == LIVE
        self._expect([seq], member.stages[-1], row_id, {("created", seq): live})

    def _expect(
        self, seqs: Sequence[int], stage: Stage, row_id: Column, asked: dict[Event, Column]
    ) -> None:
        self._steps |= set(seqs)
        self._expected.append(self.pool.submit(_counted, stage, row_id, asked))

    def checks(self, kept: Kept) -> Iterator[Check]:
        """Compare every file of the trace with what was expected for its step."""
        expected: dict[Event, KeyDigest] = {}
        for counted in self._expected:
            for event, met in counted.result().items():
                expected[event] = expected.get(event, KeyDigest()) + met
        for seq in sorted(self._steps):
            folder = self.place / f"operation_seq={seq}"
            for kind in ("created", "updated", "deleted", "baseline"):
                files = sorted(folder.glob(f"{kind}-*.parquet"))
                found = kept.column(files, "row_id")
                wanted = expected.get((kind, seq), KeyDigest())
                if files or wanted.count:
                    what = f"trace of step {seq}, rows {kind}"
                    yield Check(what=what, expected=wanted, found=found)


def _counted(stage: Stage, row_id: Column, asked: dict[Event, Column]) -> dict[Event, KeyDigest]:
    """Count in one pass over the rows; each id is computed once."""
    marks = {f"_tm_q{n}": F.coalesce(holds, F.lit(False)) for n, holds in enumerate(asked.values())}
    some = [F.col(mark) for mark in marks]
    rows = stage.read().select(row_id.alias("row_id"), *(h.alias(m) for m, h in marks.items()))
    rows = rows.where(F.greatest(*some) if len(some) > 1 else some[0])
    lanes = [
        lane for mark in marks for lane in digest.lanes_where(F.col("row_id"), F.col(mark), mark)
    ]
    row = rows.agg(*lanes).first()
    return {event: digest.of_row(row, mark) for event, mark in zip(asked, marks, strict=True)}
