"""Random documents in the compiled form, grown from the table of verbs."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from hypothesis import strategies as st

from tallyman.domain.compiled.kinds import FLAG, Grammar, Key, Listed, Ordered, Scalar
from tallyman.domain.compiled.steps import VERBS
from tallyman.domain.pipeline.trigger import MOST_PRIORITY

Json = Any
# Quotes, line breaks, letters of two planes: everything a name or an expression may contain.
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
texts |= st.just("{{x}}")  # only in YAML a selector
names = st.text("abcdefgxyz_", min_size=1, max_size=5)
INPUTS = ("orders", "rates")


def strategy(kind: Any, depth: int) -> st.SearchStrategy[Json]:
    """Values of a kind, as they are written."""
    match kind:
        case Scalar(described={"enum": words}):
            return st.sampled_from(words)
        case Scalar(described={"minimum": least}):
            return st.integers(least, 2**40)
        case Scalar(described={"description": _}):
            return texts.filter(lambda text: bool(text.strip()))
        case Scalar():
            return st.booleans() if kind is FLAG else texts
        case Listed(item=item, least=least):
            return st.lists(strategy(item, depth), min_size=least, max_size=3)
        case Ordered(kind=item):
            is_alias = not isinstance(item, Scalar)
            name = names.filter(str.isalpha) if is_alias else texts
            pair = st.tuples(name, strategy(item, depth)).map(list)
            return st.lists(pair, min_size=1, max_size=3, unique_by=lambda each: each[0])
    match kind.schema():
        case {"oneOf": _}:
            return texts | st.lists(texts, max_size=2)
        case {"properties": _}:
            return st.tuples(plans(depth - 1), texts).map(lambda both: {**both[0], "on": both[1]})
    return plans(depth - 1)


FIXED = {
    "name": names,
    "rule": names,
    "by": st.lists(texts, min_size=1, max_size=3, unique=True),
    "path": st.just("exports/a"),
    "severity": st.sampled_from(["fail", "warn"]),
    "include_deleted": st.just(True),
    "format": st.sampled_from(["csv", "json"]),
    "how": st.just("left"),
    "max_unmatched": st.sampled_from(["0", "12", "5%", "0.5%"]),
    "seq": st.integers(1, 10**6),
}
"""Keys with rules of their own, and values that are not the default: that one is left out."""


def keys(verb: Grammar, depth: int) -> st.SearchStrategy[dict[str, Json]]:
    given = {
        name: FIXED[name] if name in FIXED else strategy(key.kind, depth)
        for name, key in verb.keys.items()
        if key.of is not None
    }
    must = {name: each for name, each in given.items() if _is_written(verb, name, verb.keys[name])}
    may = {name: each for name, each in given.items() if name not in must}
    return st.fixed_dictionaries(must, optional=may)


def _is_written(verb: Grammar, name: str, key: Key) -> bool:
    """True if the field has no default, and may not be None."""
    [field] = [each for each in fields(verb.made) if each.name == (key.of or name)]
    return field.default is MISSING and "None" not in str(field.type)


def steps(depth: int) -> st.SearchStrategy[dict[str, Json]]:
    verbs = [
        keys(verb, depth).map(lambda found, name=name: {name: found})
        for name, verb in VERBS.items()
        if depth > 0 or not {"with", "from", "join"} & set(verb.keys)
    ]
    return st.one_of(verbs)


def _rising(listed: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Keep a number only where it rises and is not the next one anyway."""
    last = 0
    for step in listed:
        [values] = step.values()
        if values.get("severity") == "warn":
            values.pop("code", None)
        usual = (last // 10 + 1) * 10
        if values.get("seq", 0) <= last or values["seq"] == usual:
            values.pop("seq", None)
        last = values.get("seq", usual)
    return listed


def plans(depth: int = 2) -> st.SearchStrategy[dict[str, Json]]:
    listed = st.lists(steps(depth), max_size=4).map(_rising)
    made = st.fixed_dictionaries({"from": st.sampled_from(INPUTS), "steps": listed})
    return made.map(lambda plan: {name: each for name, each in plan.items() if each})


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
    longer = st.integers(1801, 10**6).map("{}s".format)
    policy = {"attempts": st.integers(4, 100), "timeout": longer}
    # A pause is not above its cap.
    retry = st.fixed_dictionaries({}, optional=policy).flatmap(
        lambda found: (
            st.just(found)
            | backoff.map(lambda s: {**found, "backoff": f"{s}s", "backoff_cap": f"{s + 1}s"})
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
