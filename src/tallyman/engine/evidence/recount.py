"""Measure the kept files of a past run again, and compare them with what its ledger says."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from tallyman.domain.account.ledger import KEPT_FILES, UNITS, KeyDigest
from tallyman.engine.evidence.kept import EVIDENCE, WHOLE_GROUP, Kept, LetterCounts
from tallyman.engine.evidence.proof import grouped_by, is_whole
from tallyman.engine.segment.group_key import GROUP_KEY, WHOLE


def recount(ledger: Mapping[str, Any], kept: Kept) -> list[str]:
    """What does not agree, in words. Ledgers of an older form say too little to be recounted."""
    if ledger["verification"].get("measured_on") != KEPT_FILES:
        return []
    return list(_Recount(ledger, kept).differences())


@dataclass(frozen=True)
class _Recount:
    ledger: Mapping[str, Any]
    kept: Kept

    @cached_property
    def letters(self) -> LetterCounts:
        return self.kept.letters()

    @cached_property
    def passed(self) -> dict[str | None, KeyDigest]:
        return self.kept.passed(self._key_columns())

    def differences(self) -> Iterator[str]:
        door = self.ledger["input_accounting"]
        records = yield from self._level(0, self.ledger["output_accounting"]["partitions"])
        yield from _same("records in", door["total_records"], door["key_digest"], records)
        for level, sub in enumerate(self.ledger["sub_ledgers"], 1):
            units = yield from self._level(level, sub["partitions"])
            what = f"{UNITS[sub['unit']]} of {sub['opened_by']}"
            made = self._made(sub)
            yield from _same(what, sub["units_in"], sub["key_digest"], made)
            yield from _same(f"{what}, by fate", made.count, str(made), units)
            if stayed := sub.get("sources"):
                found = self.kept.grouped(f"{EVIDENCE['row']}/{sub['opened_by']}.parquet").sources
                behind = f"rows behind the {what}"
                yield from _same(behind, stayed["record_count"], stayed["key_digest"], found)
        yield from self._behind_groups()
        if self.letters.count != self.letters.promised:
            yield f"dead letters: {self.letters.promised:,} expected, {self.letters.count:,} found"

    def _behind_groups(self) -> Iterator[str]:
        """Groups that went on whole, into the output or into other groups, say of which rows they
        were made."""
        subs = self.ledger["sub_ledgers"]
        for number, sub in enumerate(subs):
            if sub["unit"] != "group" or len(sub["partitions"]) > 1:
                continue  # of the groups that ended only the keys were kept
            found = self.kept.sources() if sub is subs[-1] else self._carried(subs[number + 1])
            if found is None:
                continue
            step = sub["opened_by"]
            expected = self.kept.grouped(f"{EVIDENCE['group']}/{step}.parquet").sources
            what = f"rows behind the groups of {step}"
            yield from _same(what, expected.count, str(expected), found)

    def _carried(self, after: Mapping[str, Any]) -> KeyDigest | None:
        """By the evidence of the step that combined the groups."""
        if after["unit"] != "group":
            return None
        return self.kept.carried(f"{EVIDENCE['group']}/{after['opened_by']}.parquet")

    def _level(
        self, level: int, partitions: Sequence[Mapping[str, Any]]
    ) -> Generator[str, None, KeyDigest]:
        """Compare the partitions of a level; the sum of what is kept of them."""
        total = KeyDigest()
        for part in partitions:
            found = self._measured(level, part, partitions)
            total += found
            place = part["adjoint_location"]
            yield from _same(place, part["record_count"], part["key_digest"], found)
        return total

    def _measured(
        self, level: int, part: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]]
    ) -> KeyDigest:
        place = part["adjoint_location"]
        match part["partition_type"]:
            case "FILTERED":
                return self.kept.keys(place)
            case "AGGREGATED":
                return self.kept.grouped(place).sources
            case "EXPLODED":
                return self.kept.children(place).parents
            case "ERROR":
                return self._rejected(level, partitions)
        return self._rows(level, part)

    def _rejected(self, level: int, partitions: Sequence[Mapping[str, Any]]) -> KeyDigest:
        sub = self.ledger["sub_ledgers"][level - 1] if level else None
        if sub is not None and sub["unit"] == "group":
            found = self.letters.groups.get(sub["opened_by"], KeyDigest())
        else:
            found = self.letters.direct.get(level, KeyDigest())
        for step in grouped_by(partitions):
            found += self.letters.sources.get(step, KeyDigest())
        return found

    def _rows(self, level: int, part: Mapping[str, Any]) -> KeyDigest:
        step = self.ledger["sub_ledgers"][level - 1]["opened_by"] if level else None
        if not self.kept.output_has_keys:
            return self.kept.group_rows(self._group_columns(str(step)))
        if part.get("marked"):
            return self.passed.get(step, KeyDigest())
        return sum(self.passed.values(), KeyDigest())

    def _group_columns(self, step: str) -> list[str]:
        files = self.kept.files(f"{EVIDENCE['group']}/{step}.parquet")
        group = pq.read_schema(files[0]).field(GROUP_KEY).type if files else ()
        return [field.name for field in group if field.name != WHOLE]

    def _made(self, sub: Mapping[str, Any]) -> KeyDigest:
        step, unit = sub["opened_by"], sub["unit"]
        place = f"{EVIDENCE[unit]}/{step}.parquet"
        if unit == "child":
            return self.kept.children(place).children
        failed = self.letters.groups.get(step, KeyDigest()) if unit == "group" else KeyDigest()
        groups = self.kept.grouped(place).groups + failed
        return WHOLE_GROUP if not groups.count and is_whole(sub) else groups

    def _key_columns(self) -> tuple[str, ...]:
        levels = [self.ledger["output_accounting"], *self.ledger["sub_ledgers"]]
        for part in (part for level in levels for part in level["partitions"]):
            if part["partition_type"] == "PASS_THROUGH":
                return tuple(part.get("key_columns", ()))
        return ()


def _same(what: str, count: int, digest: str, found: KeyDigest) -> Iterator[str]:
    if count != found.count:
        yield f"{what}: {count:,} expected, {found.count:,} found"
    elif digest != str(found):
        yield f"{what}: {count:,} as expected, but not the same ones"
