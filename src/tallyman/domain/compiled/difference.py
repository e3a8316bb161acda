"""The differences between two pipelines in the compiled form: which declaration, which step, which
value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from tallyman.domain.compiled.piece import Json
from tallyman.domain.compiled.steps import kind_of
from tallyman.domain.definition.canonical_json import canonical
from tallyman.domain.definition.plan import next_number

SECTIONS = {"sources": "source", "tables": "table", "assets": "asset"}
PLAN = ("from", "steps")
LONGEST = 160
"""The most characters shown of a value."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One value that differs; None where it is not given. A step that came or went is one value."""

    where: str
    before: Json | None
    after: Json | None
    of_plan: bool = False

    def __str__(self) -> str:
        if self.before is None and self.of_plan and isinstance(self.after, Mapping):
            return f"{self.where} is new: {shown(self.after)}"
        if self.after is None and self.of_plan and isinstance(self.before, Mapping):
            return f"{self.where} is gone: {shown(self.before)}"
        return f"{self.where} {shown(self.before)} → {shown(self.after)}"

    def to_json(self) -> dict[str, Json]:
        return {"where": self.where, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A declaration that differs."""

    kind: str
    name: str
    change: str
    """`added`, `removed` or `changed`."""
    edits: tuple[Edit, ...] = ()


def shown(value: Json | None) -> str:
    if value is None:
        return "(not given)"
    text = f"`{value}`" if isinstance(value, str) else canonical(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ItemChange]:
    """Compare two documents, declaration by declaration."""
    for section, kind in SECTIONS.items():
        then, now = before.get(section, {}), after.get(section, {})
        for name in sorted({*then, *now}):
            if name not in then or name not in now:
                yield ItemChange(kind, name, "added" if name in now else "removed")
            elif edits := tuple(_item_edits(then[name], now[name])):
                yield ItemChange(kind, name, "changed", edits)


def _item_edits(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Edit]:
    if "from" in before:
        yield from _plan_edits(before, after, "")
    then, now = ({k: v for k, v in item.items() if k not in PLAN} for item in (before, after))
    yield from _edits(then, now, "")


def _edits(before: Mapping[str, Any], after: Mapping[str, Any], above: str) -> Iterator[Edit]:
    """Compare the fields of two objects, and those of objects in them."""
    for name in sorted({*before, *after}):
        then, now = before.get(name), after.get(name)
        where = f"{above}{name}"
        if then == now:
            continue
        if isinstance(then, Mapping) and isinstance(now, Mapping):
            yield from _edits(then, now, f"{where}.")
        else:
            yield Edit(where, then, now)


def _plan_edits(before: Mapping[str, Any], after: Mapping[str, Any], above: str) -> Iterator[Edit]:
    if before["from"] != after["from"]:
        yield Edit(f"{above}from", before["from"], after["from"], of_plan=True)
    then, now = _numbered(before), _numbered(after)
    for old, new in _aligned(then, now):
        if old is None or new is None:
            place = (new or old or ("", {}))[0]
            yield Edit(f"{above}step {place}", old and old[1], new and new[1], of_plan=True)
        else:
            yield from _step_edits(
                kind_of(old[1])[1], kind_of(new[1])[1], f"{above}step {new[0]}: "
            )


Numbered = tuple[str, Mapping[str, Any]]
"""A step with its id."""


def _numbered(plan: Mapping[str, Any]) -> list[Numbered]:
    found: list[Numbered] = []
    last = 0
    for step in plan.get("steps", ()):
        kind, values = kind_of(step)
        seq = values.get("seq") or next_number(last)
        found.append((values.get("name") or f"{seq}_{kind}", step))
        last = max(last, seq)
    return found


def _aligned(
    before: Sequence[Numbered], after: Sequence[Numbered]
) -> Iterator[tuple[Numbered | None, Numbered | None]]:
    """Pair the steps that differ: equal steps first, the rest by kind and name in their order."""
    for then, now in _unequal(before, after):
        by_name = SequenceMatcher(
            None, [_identity(one) for one in then], [_identity(one) for one in now], autojunk=False
        )
        for tag, a, b, c, d in by_name.get_opcodes():
            if tag == "equal":
                yield from zip(then[a:b], now[c:d], strict=True)
            else:
                yield from ((one, None) for one in then[a:b])
                yield from ((None, one) for one in now[c:d])


def _unequal(
    before: Sequence[Numbered], after: Sequence[Numbered]
) -> Iterator[tuple[Sequence[Numbered], Sequence[Numbered]]]:
    texts = [[canonical(step) for _, step in steps] for steps in (before, after)]
    matcher = SequenceMatcher(None, *texts, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield before[a:b], after[c:d]


def _identity(one: Numbered) -> tuple[str, str]:
    kind, values = kind_of(one[1])
    return kind, str(values.get("name", values.get("rule", "")))


def _step_edits(before: Mapping[str, Any], after: Mapping[str, Any], above: str) -> Iterator[Edit]:
    for name in sorted({*before, *after}):
        then, now = before.get(name), after.get(name)
        if then == now:
            continue
        if isinstance(then, Mapping) and isinstance(now, Mapping) and "from" in then:
            yield from _plan_edits(then, now, f"{above}{name}: ")
        elif (pairs := _pairs(then)) is not None and (others := _pairs(now)) is not None:
            for column in dict.fromkeys([*pairs, *others]):
                if pairs.get(column) != others.get(column):
                    where = f"{above}{name} {column}"
                    yield Edit(where, pairs.get(column), others.get(column), of_plan=True)
            if list(pairs) != list(others) and set(pairs) == set(others):
                yield Edit(f"{above}order of {name}", list(pairs), list(others), of_plan=True)
        else:
            yield Edit(f"{above}{name}", then, now, of_plan=True)


def _pairs(value: Json | None) -> dict[str, Json] | None:
    """Return names and expressions, as a withColumn or an aggregate has them; None for anything
    else."""
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(one, list) and len(one) == 2 for one in value):
        return None
    found = {str(name): expression for name, expression in value}
    return found if len(found) == len(value) else None
