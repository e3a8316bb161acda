"""Row ids, `_row_id`: UUIDs laid out as version 7. A retry gives the same: bits are derived."""

from __future__ import annotations

from dataclasses import dataclass

from tallyman.domain.history.run import RunIdentity
from tallyman.engine.expressions.column_names import literal
from tallyman.engine.working.changes import Member
from tallyman.engine.working.trace_layout import LOW


@dataclass(frozen=True, slots=True)
class RowIds:
    run: RunIdentity
    asset: str
    partition: str | None

    def of(self, member: Member, key: str) -> str:
        """Write the id as text; this and `key` are SQL."""
        begins = self.high(member)
        shown = literal(f"{begins[:8]}-{begins[8:12]}-{begins[12:]}-")
        rest = f"lower(hex({self.low(member, key)} | {-2 << LOW}L))"
        return f"concat({shown}, substring({rest}, 1, 4), '-', substring({rest}, 5, 12))"

    def high(self, member: Member) -> str:
        """The first 64 bits of the ids of a member, in hexadecimal digits."""
        moment = f"{int(self.run.started_at.timestamp() * 1000):012x}"
        return f"{moment}7{member.ordinal:03x}"

    def low(self, member: Member, key: str) -> str:
        """Write the last 62 bits as a number."""
        scope = "\x1f".join(
            (self.run.openlineage_run_id, self.asset, self.partition or "", str(member.born))
        )
        return f"(xxhash64({literal(scope)}, {key}) & {(1 << LOW) - 1}L)"
