"""Sub-ledgers in numbers: groups, children or rows that a step made of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import Ledger, Partition, by_fate
from tallyman.domain.codec import to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTally:
    """One sub-ledger in numbers."""

    opened_by: str
    unit: str
    units_in: int
    fates: Mapping[Fate, int]
    unaccounted: int = 0
    parents: int | None = None
    """The number of records, or units of another sub-ledger, that the children were made of."""

    @property
    def rejected(self) -> int:
        return self.fates.get(Fate.ERROR, 0)

    @property
    def worth_a_line(self) -> bool:
        """True unless the output already shows everything: all groups passed."""
        return self.unit == "child" or self.fates.get(Fate.PASSED, 0) != self.units_in

    def to_json(self) -> dict[str, object]:
        return {name: fact for name, fact in to_plain(self).items() if fact is not None}


def sub_tallies(ledger: Ledger) -> tuple[SubTally, ...]:
    """Summarize each sub-ledger of an asset, in the order in which its steps opened them."""
    listed = [*ledger.partitions, *(p for sub in ledger.sub_ledgers for p in sub.partitions)]
    return tuple(
        SubTally(
            opened_by=sub.opened_by,
            unit=sub.unit,
            units_in=sub.units_in,
            fates=by_fate(sub.partitions),
            unaccounted=sub.unaccounted,
            parents=_parents(sub.opened_by, listed) if sub.unit == "child" else None,
        )
        for sub in ledger.sub_ledgers
    )


def _parents(step: str, partitions: list[Partition]) -> int:
    """Count the parents of a step's children: the records it EXPLODED."""
    place = f"/{step}.parquet"
    exploded = [p for p in partitions if p.fate is Fate.EXPLODED and p.location.endswith(place)]
    return sum(p.digest.count for p in exploded)
