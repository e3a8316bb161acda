"""Row ids, `_row_id`: UUIDs laid out as version 7. A retry gives the same: bits are derived."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from tallyman.domain.history.run import RunIdentity
from tallyman.engine.working.changes import Member


@dataclass(frozen=True, slots=True)
class RowIds:
    run: RunIdentity
    asset: str
    partition: str | None

    def of(self, member: Member, key: Column) -> Column:
        """Build the id as text."""
        found = self._hash(member, key)
        first = F.substring(found, 1, 1)
        variant = F.when(first < "4", "8").when(first < "8", "9").when(first < "c", "a")
        variant = variant.otherwise("b")
        rest = [F.substring(found, 2, 3), F.lit("-"), F.substring(found, 5, 12)]
        begins = self.high(member)
        shown = f"{begins[:8]}-{begins[8:12]}-{begins[12:]}-"
        return F.concat(F.lit(shown), variant, *rest)

    def high(self, member: Member) -> str:
        """The first 64 bits of the ids of a member, in hexadecimal digits."""
        moment = f"{int(self.run.started_at.timestamp() * 1000):012x}"
        return f"{moment}7{member.ordinal:03x}"

    def low(self, member: Member, key: Column) -> Column:
        """Build the last 62 bits as a number: the two before them are the same in every UUID."""
        found = self._hash(member, key)
        first = F.translate(F.substring(found, 1, 1), "0123456789abcdef", "0000111122223333")
        digits = F.concat(first, F.substring(found, 2, 15))
        return F.conv(digits, 16, 10).cast("bigint")

    def _hash(self, member: Member, key: Column) -> Column:
        scope = "\x1f".join(
            (self.run.openlineage_run_id, self.asset, self.partition or "", str(member.born))
        )
        return F.sha2(F.concat(F.lit(f"{scope}\x1f"), key), 256)
