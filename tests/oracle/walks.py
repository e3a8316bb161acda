"""The answers of `why` and `where`: as they must be, and as they are given, in one form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tallyman.domain.history.walk import Became, Hop, RecordOrigin
from tests.oracle.account import Account, Row
from tests.oracle.expected import Oracle
from tests.oracle.found import exact
from tests.oracle.raw import Place
from tests.oracle.reading import row_place

Walked = Mapping[str, Any]
DID = {"group": "combined", "row": "combined", "child": "multiplied"}
BECAME = {"group": "aggregated", "row": "aggregated", "child": "exploded"}


# ---- why ---------------------------------------------------------------------------------


def expected_why(oracle: Oracle, account: Account, rows: Sequence[Row]) -> Walked:
    behind = frozenset().union(*(row.behind for row in rows))
    inputs: dict[str, Any] = {}
    for name in account.inputs:
        own = [place for place in behind if place.input == name]
        made = oracle.accounts.get((name, None))
        if own and made:
            wanted = [row for row in made.rows if row_place(made, row) in behind]
            inputs[name] = (len(own), expected_why(oracle, made, wanted))
        elif own:
            inputs[name] = (len(own), Counter((place.file, place.line) for place in own))
    return {
        "asset": account.asset,
        "rows": Counter(exact(dict(row.values)) for row in rows),
        "steps": _steps(account, rows, len(behind)),
        "records": len(behind),
        "inputs": inputs,
        "joins": _joins(account, behind),
    }


def _steps(account: Account, rows: Sequence[Row], records: int) -> list[tuple[str, str, int]]:
    level = rows[0].level
    assert all(row.level == level for row in rows)
    if level == 0:
        return [(account.last, "passed", records)]
    found = []
    for number, sub in enumerate(reversed(account.subs)):
        count = records
        if sub.unit == "group" and number == 0 and len(account.subs) > 1:
            keys = {row.key for row in rows}  # what went in were children
            count = sum(group in keys for step, group, _, _ in account.groups)
        found.append((sub.opened_by, DID[sub.unit], count))
    return found


def _joins(account: Account, behind: Collection[Place]) -> dict[str, Any]:
    found = {}
    for step, met in account.met.items():
        places = frozenset().union(*(met.get(place, frozenset()) for place in behind))
        found[step] = Counter((place.file, place.line) for place in places)
    return found


def found_why(hops: Sequence[Hop]) -> Walked:
    """One result each: the depot has no dataset of several runs but the appended one."""
    if len(hops) != 1:
        return {"hops": len(hops)}
    [hop] = hops
    return {
        "asset": hop.asset,
        "rows": Counter(exact(dict(row)) for row in hop.shown),
        "steps": [(one.step, one.did, one.count) for one in hop.steps],
        "records": hop.records,
        "inputs": {one.name: _origin(one) for one in hop.inputs if one.count},
        "joins": {one.step: _places(one.origin) for one in hop.joins},
    }


def _origin(origin: RecordOrigin) -> tuple[int | None, Any]:
    if origin.kind == "asset":
        return origin.count, found_why(origin.hops)
    return origin.count, _places(origin)


def _places(origin: RecordOrigin) -> Counter[tuple[str, int]]:
    assert origin.not_shown is None, origin.not_shown
    return Counter((str(one.file), int(one.line or 0)) for one in origin.records)


# ---- where -------------------------------------------------------------------------------


def expected_where(oracle: Oracle, source: str, places: Collection[Place]) -> list[Walked]:
    found = []
    for account in oracle.accounts.values():
        read = account.fates.keys() & places or account.partition is None
        if source in account.inputs and read:
            found.append(_became(oracle, account, frozenset(places)))
        for step, met in account.met.items():
            if REFERENCES[step] == source:
                count = sum(bool(rows & frozenset(places)) for rows in met.values())
                found.append({"asset": account.asset, "joined_by": count})
    earlier = [account for account in oracle.earlier if source in account.inputs]
    found += [_became(oracle, one, _same_keys(one, places)) for one in earlier]
    return _sorted(found)


def _same_keys(account: Account, places: Collection[Place]) -> frozenset[Place]:
    """Files that were added to the source since: the run's records are known by key alone."""
    keys = {unit.key for unit in account.records if unit.behind & frozenset(places)}
    return frozenset().union(*(unit.behind for unit in account.records if unit.key in keys))


REFERENCES = {
    "known_depot": "depots",
    "maybe_depot": "depots",
    "each_offer": "tariffs",
    "20_update": "accounts",
}


def _became(oracle: Oracle, account: Account, places: frozenset[Place]) -> dict[str, Any]:
    rows = account.rows if account.published is None else account.published
    mine = [row for row in rows if row.behind & places]
    letters = [letter for letter, behind in account.letters if behind & places]
    gone = Counter(step for step, _, behind in account.filtered if behind & places)
    then: list[Walked] = []
    if mine and account.asset == "clean_parcels":
        reached = frozenset(row_place(account, row) for row in mine)
        readers = [one for one in oracle.accounts.values() if account.asset in one.inputs]
        then = _sorted(_became(oracle, one, reached) for one in readers)
    return {
        "asset": account.asset,
        "partition": account.partition,
        "rejections": Counter((*letter[1:6], letter.step, letter.group_key) for letter in letters),
        "filtered": gone,
        "steps": _made(account, places),
        "rows": Counter(exact(dict(row.values)) for row in mine),
        "then": then,
    }


def _made(account: Account, places: frozenset[Place]) -> list[tuple[str, str, int]]:
    found = []
    for sub in account.subs:
        if sub.unit == "child":
            count = sum(s == sub.opened_by and p in places for s, _, _, p in account.children)
        else:
            own = [g for s, g, _, p in account.groups if s == sub.opened_by and p in places]
            count = len(set(own))
        if count:
            found.append((sub.opened_by, BECAME[sub.unit], count))
    return found


def found_where(became: Iterable[Became]) -> list[Walked]:
    found: list[Walked] = []
    for one in became:
        if one.role == "reference":
            found.append({"asset": one.asset, "joined_by": one.joined_by})
            continue
        rejections = Counter(
            (r.error_type, r.rule, r.expected, r.actual, r.error_code, r.step, r.group_key)
            for r in one.rejections
        )
        found.append(
            {
                "asset": one.asset,
                "partition": one.partition,
                "rejections": rejections,
                "filtered": Counter({ended.step: ended.count for ended in one.filtered}),
                "steps": [(step.step, step.did, step.count) for step in one.steps],
                "rows": Counter(exact(dict(row)) for row in one.shown),
                "then": found_where(one.then),
            }
        )
    return _sorted(found)


def _sorted(found: Iterable[Walked]) -> list[Walked]:
    """Two runs may have results of one asset: then the one that has rows comes last."""
    return sorted(found, key=lambda one: (one["asset"], str(one.get("partition")), _rows(one)))


def _rows(walked: Walked) -> str:
    bags = (walked.get(name, Counter()) for name in ("rows", "filtered", "rejections"))
    return str([sorted(map(str, bag.items())) for bag in bags])
