"""Rows of a trace: next to each row that steps touched, what they changed.

A row of a trace holds the row at the end of its segment, a mark for each column that a step
changed, and the values before. All earlier states of the row follow from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.engine.expressions.column_names import KEY, LIVE, PART
from tallyman.engine.expressions.columns import col
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.parquet_types import of_spark
from tallyman.engine.segment.stage import TRACED
from tallyman.engine.working.changes import SEEN, Member, original
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.spans import Span
from tallyman.engine.working.trace_layout import WORD, TraceLayout, mark

END = "_tm_end"
"""The step at which the row ended."""
COPY = "_tm_copy"
"""The part to which a row goes: a touched row goes to its own part and to the trace."""


def marks(word: int) -> str:
    return f"_tm_m{word}"


@dataclass
class TraceRows:
    """The trace of a member's rows, in the segment that is about to be written. `at` is the path of
    its column in the files.
    """

    member: Member
    ids: RowIds
    hidden: Redaction
    ended: Column
    ending: Sequence[int]
    """The steps of the segment at which rows may have ended."""
    created: bool
    """True if a step just created the rows."""
    at: str

    @cached_property
    def _bits(self) -> list[Column]:
        """The marks in order: touched before, each change, each step that ended rows."""
        changed = [F.col(change.flag) for change in self.member.changes]
        return [F.col(SEEN), *changed, *(F.col(END).eqNullSafe(seq) for seq in self.ending)]

    @property
    def words(self) -> int:
        return -(-len(self._bits) // WORD)

    def prepared(self, rows: DataFrame) -> DataFrame:
        """Mark each row, and add a copy of each touched row."""
        rows = rows.withColumn(END, self.ended)
        found: dict[str, Column] = {}
        for word in range(self.words):
            bits = self._bits[word * WORD : (word + 1) * WORD]
            values = (
                F.when(bit, F.lit(1 << place).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
                for place, bit in enumerate(bits)
            )
            found[marks(word)] = reduce(Column.bitwiseOR, values)
        own = F.col(PART).cast("int")
        twice = F.array(own, F.lit(TRACED).cast("int"))
        copies = F.explode(F.when(self.touched, twice).otherwise(F.array(own)))
        return rows.withColumns(found).withColumn(COPY, copies)

    @property
    def touched(self) -> Column:
        """True if the row has records in the trace of this segment."""
        if self.created:
            return F.col(PART) == LIVE
        # The first mark says that the row was touched before.
        first = F.col(marks(0)) > 1
        more = (F.col(marks(word)) > 0 for word in range(1, self.words))
        return reduce(Column.__or__, more, first)

    def seen(self) -> Column:
        return F.lit(False) if self.created else F.col(SEEN) | self.touched

    def column(self) -> Column:
        """Build the column of the trace: NULL on rows that are not copies for it."""
        fields = [
            self.ids.low(self.member, F.col(KEY)).alias("id"),
            *(F.col(marks(word)).alias(mark(word)) for word in range(self.words)),
            *(F.expr(f"{value} AS {name}") for name, value in self._values().items()),
        ]
        return F.when(F.col(COPY) == TRACED, F.struct(*fields))

    def user_columns(self, *, output: bool) -> list[Column]:
        """The user's columns; in an output they are NULL on ended rows. The trace has the redacted
        ones separately.
        """
        found = []
        for name in self.member.flow.columns:
            own = [LIVE] if output else []
            hidden = self.hidden.covers(name)
            if output:
                shown = F.col(COPY).isin(*own, *([] if hidden else [TRACED]))
            elif hidden:
                shown = F.col(COPY) != TRACED
            else:
                found.append(col(name))
                continue
            found.append(F.when(shown, col(name)).alias(name))
        return found

    def _values(self) -> dict[str, str]:
        """Write the values that are not columns of the row itself, by our name."""
        found: dict[str, str] = {}
        for span in self.member.spans:
            for change in span.changes:
                if not change.new:
                    found[change.old] = self._shown(change.column, change.old)
        for place, span in enumerate(self._kept_apart()):
            found[f"last_{place}"] = self._shown(span.holder or self._name(span), span.last)
        for place, value in self._originals().items():
            found[f"loaded_{place}"] = self._shown(self.member.loaded[place], value)
        return found

    def _shown(self, name: str, value: str) -> str:
        return self.hidden.value(name, value)

    def _name(self, span: Span) -> str:
        """A name that the column of an ended span had; all its names are hidden, or none is."""
        return span.changes[-1].column if span.changes else span.start or ""

    def _needed(self) -> list[Span]:
        """The spans that some state of a row is read from."""
        starts = set(self.member.starts)
        return [
            span
            for span in self.member.spans
            if span.changes or self.created or (span.start and span.start in starts)
        ]

    def _kept_apart(self) -> list[Span]:
        """The spans whose last value is not a column of the row in the trace."""
        return [s for s in self._needed() if s.holder is None or self.hidden.covers(s.holder)]

    def _originals(self) -> dict[int, str]:
        """The loaded columns that no span begins with: dropped before, or of another type then."""
        found: dict[int, str] = {}
        for place, (start, kind) in enumerate(
            zip(self.member.starts, self.member.kinds, strict=True)
        ):
            span = self.span_of(start)
            if span is None:
                found[place] = original(place)
            elif span.kind != kind:
                found[place] = f"CAST({span.first} AS {of_spark(kind.jsonValue())})"
        return found

    def span_of(self, start: str | None) -> Span | None:
        return next((s for s in self.member.spans if start and s.start == start), None)

    # ---- layout --------------------------------------------------------------------------

    def layout(self) -> TraceLayout:
        """Describe where the files have what."""
        needed, apart = self._needed(), self._kept_apart()
        row = self.at.split(".")
        bit = {change.flag: n for n, change in enumerate(self.member.changes, 1)}
        columns = [
            {
                "last": [*row, f"last_{apart.index(span)}"] if span in apart else [span.holder],
                "changes": [
                    {
                        "step": change.seq,
                        "column": change.column,
                        "mark": bit[change.flag],
                        "old": None if change.new else [*row, change.old],
                    }
                    for change in span.changes
                ],
            }
            for span in needed
        ]
        first = len(bit) + 1
        content: dict[str, Any] = {
            "row": row,
            "row_id_begins": self.ids.high(self.member),
            "words": self.words,
            "columns": columns,
            "ended": [{"step": seq, "mark": first + n} for n, seq in enumerate(self.ending)],
            "loaded": self._loaded(needed, row),
            "created": self._created(needed),
        }
        return TraceLayout(self.at, self.words, content)

    def _loaded(self, needed: list[Span], row: list[str]) -> list[dict[str, Any]] | None:
        member = self.member
        if member.born:
            return None
        apart = self._originals()
        found: list[dict[str, Any]] = []
        for place, (name, start) in enumerate(zip(member.loaded, member.starts, strict=True)):
            span = self.span_of(start)
            if place in apart or span is None:
                found.append({"name": name, "value": [*row, f"loaded_{place}"]})
            else:
                found.append({"name": name, "column": needed.index(span)})
        return found

    def _created(self, needed: list[Span]) -> dict[str, Any] | None:
        if not self.created:
            return None
        names = {span.holder: n for n, span in enumerate(needed)}
        values = [{"name": n, "column": names[n]} for n in self.member.flow.columns]
        return {"step": self.member.born, "values": values}
