"""Rows of a trace: next to each row that steps touched, what they changed.

A row of a trace holds the row at the end of its segment, a mark for each column that a step
changed, and the values before. All earlier states of the row follow from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from tallyman.engine.expressions.column_names import KEY, LIVE, PART, literal, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.parquet_types import of_spark
from tallyman.engine.segment.stage import TRACED
from tallyman.engine.segment.tags import IS_LIVE
from tallyman.engine.working.changes import SEEN, Member, original
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.spans import Span
from tallyman.engine.working.trace_layout import WORD, TraceLayout, mark

END = "_tm_end"
"""The step at which the row ended."""
COPY = "_tm_copy"
"""The part to which a row goes: a touched row goes to its own part and to the trace."""
IS_OWN = f"{COPY} <> {TRACED}"
"""True for rows that are not copies for the trace, in SQL."""


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
    ended: str
    """The step at which a row ended, in SQL."""
    ending: Sequence[int]
    """The steps of the segment at which rows may have ended."""
    created: bool
    """True if a step just created the rows."""
    at: str

    @cached_property
    def _bits(self) -> list[str]:
        """The marks in order: touched before, each change, each step that ended rows."""
        changed = [change.flag for change in self.member.changes]
        return [SEEN, *changed, *(f"{END} <=> {seq}" for seq in self.ending)]

    @property
    def words(self) -> int:
        return -(-len(self._bits) // WORD)

    def prepared(self, rows: DataFrame) -> DataFrame:
        """Mark each row, and add a copy of each touched row."""
        found: list[str] = []
        for word in range(self.words):
            bits = self._bits[word * WORD : (word + 1) * WORD]
            values = (f"CASE WHEN {b} THEN {1 << n}L ELSE 0L END" for n, b in enumerate(bits))
            found.append(f"{' | '.join(values)} AS {marks(word)}")
        own = f"CAST({PART} AS INT)"
        twice = f"CASE WHEN {self.touched} THEN array({own}, {TRACED}) ELSE array({own}) END"
        rows = rows.selectExpr("*", f"CAST({self.ended} AS INT) AS {END}")
        return rows.selectExpr("*", *found).selectExpr("*", f"explode({twice}) AS {COPY}")

    @property
    def touched(self) -> str:
        """True if the row has records in the trace of this segment, in SQL."""
        if self.created:
            return IS_LIVE
        # The first mark says that the row was touched before.
        more = (f"{marks(word)} > 0" for word in range(1, self.words))
        return f"({' OR '.join([f'{marks(0)} > 1', *more])})"

    def seen(self) -> str:
        return "false" if self.created else f"({SEEN} OR {self.touched})"

    def column(self) -> str:
        """Write the column of the trace: NULL on rows that are not copies for it."""
        fields = {
            "id": self.ids.low(self.member, KEY),
            **{mark(word): marks(word) for word in range(self.words)},
            **self._values(),
        }
        listed = ", ".join(f"{literal(name)}, {value}" for name, value in fields.items())
        return f"CASE WHEN {COPY} = {TRACED} THEN named_struct({listed}) END"

    def user_columns(self, *, output: bool) -> list[str]:
        """The user's columns; in an output they are NULL on ended rows. The trace has the redacted
        ones separately.
        """
        found = []
        for name in self.member.flow.columns:
            own, hidden = quoted(name), self.hidden.covers(name)
            if output:
                shown = f"{COPY} = {LIVE}" if hidden else f"{COPY} IN ({LIVE}, {TRACED})"
            elif hidden:
                shown = IS_OWN
            else:
                found.append(own)
                continue
            found.append(f"CASE WHEN {shown} THEN {own} END AS {own}")
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
