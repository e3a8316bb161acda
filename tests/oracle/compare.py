"""Multisets compared whole: what is missing and what is too much are named, and all is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.account import Account, Letter
from tests.oracle.expected import repeated
from tests.oracle.found import Found, exact

Bag = Counter[Any]


class Different(AssertionError):
    """What was compared is not equal."""


@dataclass
class Compared:
    """How much was compared, by what."""

    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def least(self, number: int) -> Iterator[None]:
        """A comparison of nothing is none: so many have to be made here."""
        before = self.counts.total()
        yield
        assert 0 < number <= self.counts.total() - before

    def __str__(self) -> str:
        shown = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        return f"{self.counts.total():,} comparisons ({shown})"

    def bags(self, what: str, expected: Bag, found: Bag) -> None:
        missing, extra = expected - found, found - expected
        if missing or extra:
            parts = [f"{what}: {missing.total()} missing, {extra.total()} too many"]
            parts += [f"  missing   {one}" for one in list(missing)[:5]]
            parts += [f"  too many  {one}" for one in list(extra)[:5]]
            raise Different("\n".join(parts))
        self.counts[what.partition(":")[0]] += expected.total()

    def same(self, what: str, expected: object, found: object) -> None:
        if expected != found:
            raise Different(f"{what}:\n  expected {expected}\n  found    {found}")
        self.counts[what.partition(":")[0]] += 1


class Keys:
    """Children of records that share a key are not told apart by their numbers."""

    def __init__(self, account: Account) -> None:
        self._repeated = repeated(account)

    def child(self, key: str) -> str:
        parent, _, _ = key.rpartition("/")
        return f"{parent}/*" if parent in self._repeated else key

    def letter(self, letter: Letter) -> Letter:
        return letter._replace(source_key=self.child(letter.source_key)) if letter.level else letter


def fates(compared: Compared, account: Account, found: Found) -> None:
    """Every record, group and child by the evidence of its fate, and the sums of the ledger."""
    child = Keys(account).child
    compared.bags(
        "fates: filtered",
        Counter((step, child(key)) for step, key, _ in account.filtered),
        _each(found.filtered(), lambda one: (one[0], child(one[1]))),
    )
    compared.bags(
        "fates: aggregated",
        Counter((step, group, child(key)) for step, group, key, _ in account.groups),
        _each(found.groups(), lambda one: (one[0], one[1], child(one[2]))),
    )
    compared.bags(
        "fates: exploded",
        Counter((step, child(key), parent) for step, key, parent, _ in account.children),
        _each(found.children(), lambda one: (one[0], child(one[1]), one[2])),
    )
    failed = Counter((letter.source_key, letter.step) for letter, _ in account.letters)
    compared.bags(
        "fates: rejected",
        Counter((child(key), step) for key, step in failed.elements()),
        Counter((child(letter.source_key), letter.step) for letter in found.letters()),
    )
    compared.bags("fates: of records", account.partitions(), found.partitions())


def _each(counted: Counter[Any], shown: Any) -> Bag:
    return Counter(shown(one) for one in counted.elements())


def door(compared: Compared, account: Account, found: Found) -> None:
    said = found.ledger["input_accounting"]
    expected = {
        "total_records": len(account.records),
        "null_keys": account.null_keys,
        "duplicate_keys": account.duplicate_keys,
        "blank_lines": account.blank_lines,
    }
    compared.same("door", expected, {name: said[name] for name in expected})


def rejections(compared: Compared, account: Account, found: Found) -> None:
    shown = Keys(account).letter
    compared.bags(
        "rejections",
        Counter(shown(letter) for letter, _ in account.letters),
        Counter(shown(letter) for letter in found.letters()),
    )


def rows(compared: Compared, account: Account, found: Found) -> None:
    """The rows in the run's folder, each with the key it carries."""
    child = Keys(account).child
    expected: Bag = Counter()
    for row in account.rows:
        # Groups that nothing was done to since are told by their columns.
        keyless = row.level and account.subs[-1].unit == "group" and not _touched(account)
        expected[None if keyless else child(row.key), exact(dict(row.values))] += 1
    given = found.passed()
    compared.bags("rows", expected, _each(given, lambda one: (one[0] and child(one[0]), one[1])))


def _touched(account: Account) -> bool:
    return account.last != ""
