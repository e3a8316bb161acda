"""One part of a YAML pipeline: what stands there, and what it may be.

Whoever reads a part as something that it is not gets None, and the mistake is written down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from tallyman.control.pipeline.yaml_loader import Items, Mapped, Node, YamlText
from tallyman.errors import Problem
from tallyman.errors.wording import nearest

SELECTOR = re.compile(r"\{\{\s*(.*?)\s*\}\}")
NOTHING = ("", "~", "null")
ALIKE = 0.5
"""How like a known word a wrong one must be to be taken for a slip."""
TRUTHS: Mapping[str, bool] = {"true": True, "false": False}

Value = TypeVar("Value")


@dataclass
class Notes:
    """What is known of a file while it is read: its mistakes, and the conditions it names."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    selectors: dict[str, str | None] = field(default_factory=dict)
    """None: there is one of this name, and it is a mistake."""


@dataclass(frozen=True, slots=True)
class YamlPart:
    path: str
    node: Node
    notes: Notes

    def fail(self, message: str, nearest: str | None = None) -> None:
        where = f"{self.notes.file}:{self.node.line}: {self.path}"
        self.notes.problems.append(Problem(where.removesuffix(": "), message, nearest))

    @property
    def is_nothing(self) -> bool:
        node = self.node
        return isinstance(node, YamlText) and node.plain and node.text.lower() in NOTHING

    @property
    def is_empty(self) -> bool:
        return isinstance(self.node, YamlText) and self.node.plain and not self.node.text

    @property
    def mistakes(self) -> int:
        return len(self.notes.problems)

    def found(self) -> str:
        """For a message: what stands there."""
        match self.node:
            case Items():
                return "a list"
            case Mapped():
                return "a mapping"
            case YamlText(text=text):
                return "nothing" if self.is_empty else repr(text)

    def expected(self, what: str) -> None:
        self.fail(f"expected {what}, found {self.found()}")

    def entries(self, known: Collection[str] | None = None) -> dict[str, YamlPart]:
        """The parts of a mapping by their names; those that are not known are mistakes."""
        if self.is_empty:
            return {}
        if not isinstance(self.node, Mapped):
            self.expected("names and values")
            return {}
        parts: dict[str, YamlPart] = {}
        for key, node in self.node.entries:
            part = YamlPart(f"{self.path}.{key.text}".lstrip("."), node, self.notes)
            if known is None or key.text in known:
                parts[key.text] = part
            else:
                there = YamlPart(part.path, key, self.notes)
                there.fail("unknown key", nearest(key.text, known, ALIKE))
        return parts

    def items(self) -> list[YamlPart]:
        if self.is_empty:
            return []
        if not isinstance(self.node, Items):
            self.expected("a list")
            return []
        nodes = self.node.nodes
        return [YamlPart(f"{self.path}[{n}]", node, self.notes) for n, node in enumerate(nodes)]

    def each(self, kind: Callable[[YamlPart], Value | None], what: str) -> dict[str, Value] | None:
        """A mapping of which every value is of one kind."""
        before = self.mistakes
        if not isinstance(self.node, Mapped) or not self.node.entries:
            self.expected(what)
            return None
        read = {name: kind(part) for name, part in self.entries().items()}
        return None if self.mistakes > before else _whole(read)


def _whole(read: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in read.items() if value is not None}


# ---- what a part may be ----------------------------------------------------------------------


def text(part: YamlPart) -> str | None:
    if not isinstance(part.node, YamlText) or part.is_empty:
        part.expected("a text")
    elif part.is_nothing:
        part.fail(f"expected a text, found {part.found()}: leave the key out, or quote the text")
    else:
        return part.node.text
    return None


def names(part: YamlPart) -> list[str] | None:
    """One name, or a list of them."""
    if isinstance(part.node, YamlText):
        one = text(part)
        return None if one is None else [one]
    if not isinstance(part.node, Items):
        part.expected("a name or a list of names")
        return None
    read = [text(item) for item in part.items()]
    return None if None in read else [name for name in read if name is not None]


def texts(part: YamlPart) -> dict[str, str] | None:
    return part.each(text, "names and texts")


def number(part: YamlPart) -> int | None:
    node = part.node
    if isinstance(node, YamlText) and node.plain and re.fullmatch(r"-?[0-9]{1,18}", node.text):
        return int(node.text)
    part.expected("a whole number")
    return None


def truth(part: YamlPart) -> bool | None:
    node = part.node
    if isinstance(node, YamlText) and node.plain and node.text.lower() in TRUTHS:
        return TRUTHS[node.text.lower()]
    part.expected("true or false")
    return None


def expression(part: YamlPart) -> str | None:
    """SQL, `null` included: there it is a value."""
    if not isinstance(part.node, YamlText) or not part.node.text.strip():
        part.expected("an expression")
        return None
    return expanded(part, part.node.text)


def condition(part: YamlPart) -> str | None:
    """SQL that is true or not; a blank one is none, and means all rows."""
    if part.is_nothing and not part.is_empty:
        part.fail("null is no condition: leave the key out to mean all rows")
        return None
    if isinstance(part.node, YamlText):
        return expanded(part, part.node.text) if part.node.text.strip() else ""
    part.expected("a condition")
    return None


def expressions(part: YamlPart) -> dict[str, str] | None:
    if isinstance(part.node, Mapped) and part.node.flow:
        for name, given in part.entries().items():
            if given.is_empty:
                hint = "within {…} a comma ends a value: quote an expression that has one in it"
                part.fail(f"{name!r} has no expression; {hint}")
                return None
    return part.each(expression, "columns and their expressions")


def listed_expressions(part: YamlPart) -> list[str] | None:
    if isinstance(part.node, Items) and not part.node.nodes:
        part.fail("name at least one column")
    read = [
        expression(item) for item in ([part] if isinstance(part.node, YamlText) else part.items())
    ]
    return None if None in read else [one for one in read if one is not None]


# ---- selectors -------------------------------------------------------------------------------


def expanded(part: YamlPart, written: str) -> str | None:
    """The text with the conditions that it names put in, in parentheses."""
    selectors = part.notes.selectors
    named = SELECTOR.findall(written)
    for name in named:
        if name not in selectors:
            part.fail(f"unknown selector {name!r}", nearest(name, selectors, ALIKE))
    if any(selectors.get(name) is None for name in named):
        return None
    return SELECTOR.sub(lambda found: selectors[found[1]] or "", written)


def read_selectors(parts: Mapping[str, YamlPart]) -> None:
    """Those that others name come first; a circle of them is a mistake."""
    uses = {
        name: [other for other in _named_in(part) if other in parts] for name, part in parts.items()
    }
    while circle := _circle(uses):
        first = parts[circle[0]]
        first.fail(f"cycle: {' → '.join(circle)}")
        first.notes.selectors |= dict.fromkeys(circle)
        uses |= {name: [] for name in circle}
    for name in TopologicalSorter(uses).static_order():
        selectors = parts[name].notes.selectors
        if name not in selectors:
            written = expression(parts[name])
            selectors[name] = None if written is None else _bracketed(written)


def _named_in(part: YamlPart) -> list[str]:
    return SELECTOR.findall(part.node.text) if isinstance(part.node, YamlText) else []


def _circle(uses: Mapping[str, list[str]]) -> list[str]:
    """Names of which each uses the next, and the last is the first; none if there is no circle."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def _bracketed(written: str) -> str:
    # A comment at its end must not swallow the parenthesis.
    return f"({written}\n)" if "--" in written else f"({written})"
