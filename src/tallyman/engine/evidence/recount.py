"""A recount: the kept files of a past run measured again, and compared with its ledger."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow.parquet as pq

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import UNITS, KeyDigest, Partition, SubLedger
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.engine.evidence.kept import (
    EVIDENCE,
    WHOLE_GROUP,
    Kept,
    LetterCounts,
    split_folders,
)
from tallyman.engine.evidence.proof import grouped_by, is_whole
from tallyman.engine.segment.group_key import GROUP_KEY, WHOLE


def recount(ledger: StoredLedger, kept: Kept) -> list[str]:
    """List the differences in words."""
    return list(_Recount(ledger, kept).differences())


@dataclass(frozen=True)
class _Recount:
    ledger: StoredLedger
    kept: Kept

    @cached_property
    def letters(self) -> LetterCounts:
        return self.kept.letters()

    @cached_property
    def passed(self) -> dict[str | None, KeyDigest]:
        return self.kept.passed(self._key_columns())

    def differences(self) -> Iterator[str]:
        records = yield from self._level(0, self.ledger.partitions)
        yield from self._same("records in", self.ledger.inputs.digest, records)
        for level, sub in enumerate(self.ledger.sub_ledgers, 1):
            units = yield from self._level(level, sub.partitions)
            what = f"{UNITS[sub.unit]} of {sub.opened_by}"
            made = self._made(sub)
            yield from self._same(what, sub.units, made)
            yield from self._same(f"{what}, by fate", made, units)
            if sub.sources is not None:
                found = self.kept.grouped(f"{EVIDENCE['row']}/{sub.opened_by}.parquet").sources
                yield from self._same(f"rows in the {what}", sub.sources, found)
        yield from self._behind_groups()
        yield from self._outputs()
        if self.letters.count != self.letters.promised:
            yield f"dead letters: {self.letters.promised:,} expected, {self.letters.count:,} found"

    def _outputs(self) -> Iterator[str]:
        """Compare the outputs of a split, taken together, with the rows that passed."""
        places = [f"outputs/{path.name}" for path in split_folders(self.kept.folder)]
        if places:
            found = sum(map(self._rows_in, places), KeyDigest())
            yield from self._same("rows of its outputs", self._rows_in("output"), found)

    def _rows_in(self, place: str) -> KeyDigest:
        if self.kept.output_has_keys:
            return sum(self.kept.passed(self._key_columns(), place).values(), KeyDigest())
        return self.kept.group_rows(
            self._group_columns(self.ledger.sub_ledgers[-1].opened_by), place
        )

    def _behind_groups(self) -> Iterator[str]:
        """Compare the rows of groups that are all in the output or in later groups, where each
        group reports the rows it was made of.
        """
        subs = self.ledger.sub_ledgers
        for number, sub in enumerate(subs):
            if sub.unit != "group" or len(sub.partitions) > 1:
                continue  # only the keys of ended groups were kept
            found = self.kept.sources() if sub is subs[-1] else self._carried(subs[number + 1])
            if found is None:
                continue
            step = sub.opened_by
            expected = self.kept.grouped(f"{EVIDENCE['group']}/{step}.parquet").sources
            yield from self._same(f"rows in the groups of {step}", expected, found)

    def _carried(self, after: SubLedger) -> KeyDigest | None:
        """Read the rows of groups from the evidence of the step that combined the groups."""
        if after.unit != "group":
            return None
        return self.kept.carried(f"{EVIDENCE['group']}/{after.opened_by}.parquet")

    def _level(
        self, level: int, partitions: Sequence[Partition]
    ) -> Generator[str, None, KeyDigest]:
        """Compare the partitions of a level; return the sum of what is kept."""
        total = KeyDigest()
        for part in partitions:
            found = self._measured(level, part, partitions)
            total += found
            yield from self._same(part.location, part.digest, found)
        return total

    def _measured(self, level: int, part: Partition, partitions: Sequence[Partition]) -> KeyDigest:
        match part.fate:
            case Fate.FILTERED:
                return self.kept.keys(part.location)
            case Fate.AGGREGATED:
                return self.kept.grouped(part.location).sources
            case Fate.EXPLODED:
                return self.kept.children(part.location).parents
            case Fate.ERROR:
                return self._rejected(level, partitions)
        return self._rows(level, part)

    def _rejected(self, level: int, partitions: Sequence[Partition]) -> KeyDigest:
        sub = self.ledger.sub_ledgers[level - 1] if level else None
        if sub is not None and sub.unit == "group":
            found = self.letters.groups.get(sub.opened_by, KeyDigest())
        else:
            found = self.letters.direct.get(level, KeyDigest())
        for step in grouped_by(partitions):
            found += self.letters.sources.get(step, KeyDigest())
        return found

    def _rows(self, level: int, part: Partition) -> KeyDigest:
        step = self.ledger.sub_ledgers[level - 1].opened_by if level else None
        if not self.kept.output_has_keys:
            return self.kept.group_rows(self._group_columns(str(step)))
        if part.marked:
            return self.passed.get(step, KeyDigest())
        return sum(self.passed.values(), KeyDigest())

    def _group_columns(self, step: str) -> list[str]:
        files = self.kept.files(f"{EVIDENCE['group']}/{step}.parquet")
        group = pq.read_schema(files[0]).field(GROUP_KEY).type if files else ()
        return [field.name for field in group if field.name != WHOLE]

    def _made(self, sub: SubLedger) -> KeyDigest:
        step, unit = sub.opened_by, sub.unit
        place = f"{EVIDENCE[unit]}/{step}.parquet"
        if unit == "child":
            return self.kept.children(place).children
        failed = self.letters.groups.get(step, KeyDigest()) if unit == "group" else KeyDigest()
        groups = self.kept.grouped(place).groups + failed
        return WHOLE_GROUP if not groups.count and is_whole(sub) else groups

    def _same(self, what: str, expected: KeyDigest, found: KeyDigest) -> Iterator[str]:
        """Compare two digests as texts, because stored sums are modulo 2**64."""
        if expected.count != found.count:
            yield f"{what}: {expected.count:,} expected, {found.count:,} found"
        elif str(expected) != str(found):
            yield f"{what}: {found.count:,} as expected, but not the same ones"

    def _key_columns(self) -> tuple[str, ...]:
        passed = next(self.ledger.evidence_of(Fate.PASSED), None)
        return passed.key_columns if passed else ()
