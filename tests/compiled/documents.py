"""Random documents in the compiled form, grown from the tables that describe it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tallyman.domain.compiled.kinds import (
    FlagKind,
    FormShape,
    ListKind,
    PairsKind,
    SqlKind,
    TextKind,
    WholeKind,
)
from tallyman.domain.compiled.steps import STEPS, LookupsKind, OnKind, PlanKind
from tallyman.domain.pipeline.trigger import MOST_PRIORITY

Json = Any
# Quotes, line breaks, letters of two planes: everything a name or an expression may contain.
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
names = st.text("abcdefgxyz_", min_size=1, max_size=5)
INPUTS = ("orders", "rates")


def strategy(kind: Any, depth: int) -> st.SearchStrategy[Json]:
    """Values of a kind, as the form writes them."""
    match kind:
        case TextKind(allowed=allowed):
            return st.sampled_from(allowed) if allowed else texts
        case SqlKind():
            return texts.filter(lambda text: bool(text.strip()))
        case FlagKind():
            return st.booleans()
        case WholeKind(least=least):
            return st.integers(least, 2**40)
        case ListKind(item=item, least=least):
            return st.lists(strategy(item, depth), min_size=least, max_size=3)
        case PairsKind():
            pair = st.tuples(texts, strategy(SqlKind(), depth)).map(list)
            return st.lists(pair, min_size=1, max_size=3, unique_by=lambda each: each[0])
        case OnKind():
            return texts | st.lists(texts, max_size=2)
        case LookupsKind():
            one = st.fixed_dictionaries(
                {"alias": names.filter(str.isalpha), "other": plans(depth - 1), "on": texts}
            )
            return st.lists(one, min_size=1, max_size=2, unique_by=lambda each: each["alias"])
        case PlanKind():
            return plans(depth - 1)
    raise AssertionError(kind)


FIXED = {
    "name": names,
    "rule": names,
    "by": st.lists(texts, min_size=1, max_size=3, unique=True),
    "path": st.just("exports/a"),
    "severity": st.just("fail"),
    "include_deleted": st.just(True),
    "format": st.sampled_from(["csv", "json"]),
    "how": st.just("left"),
    "max_unmatched": st.sampled_from(["0", "12", "5%", "0.5%"]),
    "seq": st.integers(1, 10**6),
}
"""Fields with rules of their own, and values that are not the default: that one is left out."""


def fields(shape: FormShape, depth: int) -> st.SearchStrategy[dict[str, Json]]:
    given = {n: FIXED[n] if n in FIXED else strategy(k, depth) for n, k in shape.kinds.items()}
    must = {name: given[name] for name in shape.required()}
    may = {name: each for name, each in given.items() if name not in must}
    return st.fixed_dictionaries(must, optional=may)


def steps(depth: int) -> st.SearchStrategy[dict[str, Json]]:
    kinds = [
        fields(each.shape, depth).map(lambda found, kind=kind: {"kind": kind, **found})
        for kind, each in STEPS.items()
        if depth > 0 or not {"other", "join"} & set(each.shape.kinds)
    ]
    return st.one_of(kinds)


def _rising(listed: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Keep a number only where it rises and is not the next one anyway."""
    last = 0
    for step in listed:
        usual = (last // 10 + 1) * 10
        if step.get("seq", 0) <= last or step["seq"] == usual:
            step.pop("seq", None)
        last = step.get("seq", usual)
    return listed


def plans(depth: int = 2) -> st.SearchStrategy[dict[str, Json]]:
    listed = st.lists(steps(depth), max_size=4).map(_rising)
    return st.fixed_dictionaries({"input": st.sampled_from(INPUTS), "steps": listed})


def crons() -> st.SearchStrategy[str]:
    """Expressions that are due at some time."""
    spans = [(0, 59), (0, 23), (1, 28), (1, 12), (0, 7)]
    return st.tuples(*(_cron_field(*span) for span in spans)).map(" ".join)


def _cron_field(least: int, most: int) -> st.SearchStrategy[str]:
    numbers = st.integers(least, most)
    ranges = st.tuples(numbers, numbers).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    starts = st.just("*") | ranges | numbers.map(str)
    stepped = st.tuples(starts, st.integers(1, 90)).map(lambda both: f"{both[0]}/{both[1]}")
    return st.lists(starts | stepped, min_size=1, max_size=3).map(",".join)


def dispatched() -> st.SearchStrategy[dict[str, Json]]:
    """Options of an asset that say how its tasks are made and tried, none of them the default."""
    zones = st.sampled_from(["Europe/Amsterdam", "America/New_York", "Asia/Kolkata"])
    ticks = st.fixed_dictionaries({"cron": crons()}, optional={"timezone": zones})
    backoff = st.integers(301, 900)
    policy = {"attempts": st.integers(4, 100), "timeout_s": st.integers(1801, 10**6)}
    # A pause is not above its cap.
    retry = st.fixed_dictionaries({}, optional=policy).flatmap(
        lambda found: (
            st.just(found)
            | backoff.map(lambda s: {**found, "backoff_s": s, "backoff_cap_s": s + 1})
        )
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "trigger": ticks | st.just("event"),
            "retry": retry,
            "priority": st.integers(-MOST_PRIORITY, MOST_PRIORITY).filter(bool),
            "pool": st.sampled_from(["small", "partner_api2"]),
            "max_concurrency": st.integers(1, 10_000),
        },
    )
