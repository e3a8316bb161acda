"""Rules for the values of a table's columns: one of a list, a range, a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from tallyman.errors.wording import nearest

if TYPE_CHECKING:
    from tallyman.domain.version.table import Column

KNOWN = ("one_of", "min", "max", "pattern")
TEXTUAL = frozenset({"string"})
UNORDERED = frozenset({"boolean", "binary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """A rule for each value of a column except NULL. Values are texts of the column's type."""

    column: str
    one_of: tuple[str, ...] = ()
    min: str | None = None
    max: str | None = None
    pattern: str | None = None
    """A regular expression that the whole text matches."""

    def __str__(self) -> str:
        said = []
        if self.one_of:
            said.append(f"one of {', '.join(self.one_of)}")
        said += [f"at least {self.min}"] if self.min is not None else []
        said += [f"at most {self.max}"] if self.max is not None else []
        said += [f"like {self.pattern}"] if self.pattern is not None else []
        return " and ".join(said)


def value_rules(
    given: Mapping[str, object], columns: Sequence[Column]
) -> tuple[list[ValueRule], list[str]]:
    """Read `{column: {one_of, min, max, pattern}}`; list the mistakes."""
    kinds = {column.name: column.type for column in columns}
    rules: list[ValueRule] = []
    mistakes: list[str] = []
    for name, rule in given.items():
        if name not in kinds:
            near = nearest(name, list(kinds))
            meant = f"; did you mean {near!r}?" if near else ""
            mistakes.append(f"a rule names {name!r}, which is not a column{meant}")
            continue
        wrong = list(_mistakes(rule, kinds[name]))
        mistakes += [f"the rule of {name!r}: {each}" for each in wrong]
        if not wrong and isinstance(rule, Mapping):
            rules.append(_rule(name, rule))
    return rules, mistakes


def _rule(name: str, rule: Mapping[str, object]) -> ValueRule:
    listed = rule.get("one_of")
    values = tuple(map(str, listed)) if isinstance(listed, (list, tuple)) else ()
    rest = {word: str(rule[word]) for word in ("min", "max", "pattern") if word in rule}
    return ValueRule(column=name, one_of=values, **rest)


def _mistakes(rule: object, kind: str) -> Iterator[str]:
    if not isinstance(rule, Mapping) or not rule:
        yield f"expected some of {', '.join(KNOWN)}, not {rule!r}"
        return
    for word in rule:
        if word not in KNOWN:
            near = nearest(str(word), KNOWN)
            yield f"unknown {word!r}" + (f"; did you mean {near!r}?" if near else "")
    if "one_of" in rule:
        listed = rule["one_of"]
        if not isinstance(listed, (list, tuple)) or not listed:
            yield f"one_of: expected a list of values, not {listed!r}"
        else:
            yield from (f"one_of: {v!r} is not {kind}" for v in listed if not _fits(v, kind))
    for word in ("min", "max"):
        if word in rule and kind in UNORDERED:
            yield f"{word}: values of type {kind} have no order"
        elif word in rule and not _fits(rule[word], kind):
            yield f"{word}: {rule[word]!r} is not {kind}"
    if "pattern" in rule:
        yield from _pattern_mistakes(rule["pattern"], kind)


def _pattern_mistakes(pattern: object, kind: str) -> Iterator[str]:
    if kind not in TEXTUAL:
        yield f"pattern: the column is {kind}, not string"
    try:
        re.compile(str(pattern))
    except re.error as error:
        yield f"pattern: {pattern!r} is not a regular expression: {error}"


def _fits(value: object, kind: str) -> bool:
    """True if the text of a value is one of this type."""
    read: dict[str, Callable[[str], object]] = {
        "string": str,
        "binary": str,
        "boolean": lambda text: {"true": True, "false": False}[text.lower()],
        "date": date.fromisoformat,
        "timestamp": datetime.fromisoformat,
        "timestamp_ntz": datetime.fromisoformat,
    }
    try:
        read.get(kind, Decimal)(str(value))
    except (ValueError, KeyError, InvalidOperation):
        return False
    return value is not None
