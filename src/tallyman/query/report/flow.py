"""The flow of records, from ledgers: how many came in, and how many met which fate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import Partition, SubLedger
from tallyman.domain.account.stored_ledger import StoredLedger

ORDER = (Fate.PASSED, Fate.AGGREGATED, Fate.EXPLODED, Fate.FILTERED, Fate.ERROR)


@dataclass(frozen=True, slots=True)
class FlowShare:
    """The records of one fate at one step."""

    fate: str
    description: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFlow:
    """One equation of a ledger: of records, or of the groups or children that a step made of
    them."""

    unit: str
    opened_by: str | None
    count: int
    shares: tuple[FlowShare, ...]
    unaccounted: int
    stopped: bool = False
    """True if not all records were followed to the end: a threshold was exceeded, or a step
    failed."""

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "opened_by": self.opened_by,
            "count": self.count,
            "parts": [asdict(one) for one in self.shares],
            "unaccounted": self.unaccounted,
        }


def flows(ledgers: Sequence[StoredLedger], *, stopped: bool = False) -> tuple[RecordFlow, ...]:
    """Return the flow of an asset's records, then of its groups or children, added up over
    partitions."""
    if not ledgers:
        return ()
    found = [_records(ledgers, stopped)]
    by_step: dict[tuple[str, str], list[SubLedger]] = {}
    for sub in (sub for ledger in ledgers for sub in ledger.sub_ledgers):
        by_step.setdefault((sub.opened_by, sub.unit), []).append(sub)
    for (step, unit), subs in by_step.items():
        found.append(
            RecordFlow(
                unit=unit,
                opened_by=step,
                count=sum(sub.units_in for sub in subs),
                shares=_shares(part for sub in subs for part in sub.partitions),
                unaccounted=sum(sub.unaccounted for sub in subs),
            )
        )
    return tuple(found)


def _records(ledgers: Sequence[StoredLedger], stopped: bool) -> RecordFlow:
    return RecordFlow(
        unit="record",
        opened_by=None,
        count=sum(ledger.records_in for ledger in ledgers),
        shares=_shares(part for ledger in ledgers for part in ledger.partitions),
        unaccounted=sum(ledger.unaccounted for ledger in ledgers),
        stopped=stopped,
    )


def _shares(listed: Iterable[Partition]) -> tuple[FlowShare, ...]:
    counts: dict[tuple[str, str], int] = {}
    for part in listed:
        place = (part.fate.value, part.description)
        counts[place] = counts.get(place, 0) + part.digest.count
    found = [FlowShare(fate, text, count) for (fate, text), count in counts.items() if count]
    return tuple(sorted(found, key=lambda share: ORDER.index(share.fate)))
