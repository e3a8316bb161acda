"""The flow of records, from ledgers: what came in, and how much of it met which fate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyman.domain.account.fate import Fate

LANE = 2**64
NAMES = {"PASS_THROUGH": Fate.PASSED.value}
ORDER = [fate.value for fate in (Fate.PASSED, Fate.AGGREGATED, Fate.EXPLODED, Fate.FILTERED)]


@dataclass(frozen=True, slots=True)
class FlowShare:
    """Records of one fate at one step."""

    fate: str
    description: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFlow:
    """One equation: records, or the groups or children that a step made out of them."""

    unit: str
    opened_by: str | None
    count: int
    shares: tuple[FlowShare, ...]
    unaccounted: int
    stopped: bool = False
    """Not all of it was followed to the end: a threshold was exceeded, or a step failed."""

    def to_json(self) -> dict[str, Any]:
        shares = [
            {"fate": p.fate, "description": p.description, "count": p.count} for p in self.shares
        ]
        return {
            "unit": self.unit,
            "opened_by": self.opened_by,
            "count": self.count,
            "parts": shares,
            "unaccounted": self.unaccounted,
        }


def flows(ledgers: Sequence[Mapping[str, Any]], *, stopped: bool = False) -> tuple[RecordFlow, ...]:
    """The records of one asset, and then its groups or children; partitions added up."""
    if not ledgers:
        return ()
    found = [_records(ledgers, stopped)]
    by_step: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for sub in (sub for ledger in ledgers for sub in ledger.get("sub_ledgers", ())):
        by_step.setdefault((sub["opened_by"], sub["unit"]), []).append(sub)
    for (step, unit), subs in by_step.items():
        found.append(
            RecordFlow(
                unit=unit,
                opened_by=step,
                count=sum(sub["units_in"] for sub in subs),
                shares=_shares(one for sub in subs for one in sub["partitions"]),
                unaccounted=sum(sub["unaccounted"] for sub in subs),
            )
        )
    return tuple(found)


def _records(ledgers: Sequence[Mapping[str, Any]], stopped: bool) -> RecordFlow:
    outs = [ledger["output_accounting"] for ledger in ledgers]
    return RecordFlow(
        unit="record",
        opened_by=None,
        count=sum(ledger["input_accounting"]["total_records"] for ledger in ledgers),
        shares=_shares(one for out in outs for one in out["partitions"]),
        unaccounted=sum(out["unaccounted"] for out in outs),
        stopped=stopped,
    )


def _shares(listed: Iterable[Mapping[str, Any]]) -> tuple[FlowShare, ...]:
    counts: dict[tuple[str, str], int] = {}
    for one in listed:
        fate = NAMES.get(one["partition_type"], one["partition_type"])
        place = (fate, one["description"])
        counts[place] = counts.get(place, 0) + one["record_count"]
    found = [FlowShare(fate, text, count) for (fate, text), count in counts.items() if count]
    return tuple(
        sorted(found, key=lambda p: ORDER.index(p.fate) if p.fate in ORDER else len(ORDER))
    )


def accounted_digest(ledger: Mapping[str, Any]) -> str:
    """The sum of what each fate's keys add up to: equal to that of the door, or not balanced."""
    lanes = [0, 0]
    for one in ledger["output_accounting"]["partitions"]:
        digest = one["key_digest"]
        lanes = [(lanes[0] + int(digest[:16], 16)) % LANE, (lanes[1] + int(digest[16:], 16)) % LANE]
    return f"{lanes[0]:016x}{lanes[1]:016x}"
