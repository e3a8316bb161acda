"""One part of a YAML pipeline, and functions that read it as a certain kind of value.

A part of the wrong kind is read as None, and the mistake is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from tallyman.control.compile.yaml_loader import Items, Mapped, Node, YamlText
from tallyman.errors import Problem
from tallyman.errors.wording import nearest

SELECTOR = re.compile(r"\{\{\s*(.*?)\s*\}\}")
NOTHING = ("", "~", "null")
ALIKE = 0.5
"""How similar a wrong word must be to a known one to be suggested as a typo."""
TRUTHS: Mapping[str, bool] = {"true": True, "false": False}

Value = TypeVar("Value")


@dataclass
class Notes:
    """The state of reading one file: its mistakes, and the selectors it defines."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    selectors: dict[str, str | None] = field(default_factory=dict)
    """None if the selector exists but is a mistake."""


@dataclass(frozen=True, slots=True)
class YamlPiece:
    path: str
    node: Node
    notes: Notes

    def fail(self, message: str, nearest: str | None = None) -> None:
        where = f"{self.notes.file}:{self.node.line}: {self.path}"
        file, line = self.notes.file, self.node.line
        found = Problem(where.removesuffix(": "), message, nearest, file, line)
        self.notes.problems.append(found)

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
        """Describe the part for a message."""
        match self.node:
            case Items():
                return "a list"
            case Mapped():
                return "a mapping"
            case YamlText(text=text):
                return "nothing" if self.is_empty else repr(text)

    def expected(self, what: str) -> None:
        self.fail(f"expected {what}, found {self.found()}")

    def entries(self, known: Collection[str] | None = None) -> dict[str, YamlPiece]:
        """Return the parts of a mapping by name; unknown names are mistakes."""
        if self.is_empty:
            return {}
        if not isinstance(self.node, Mapped):
            self.expected("names and values")
            return {}
        pieces: dict[str, YamlPiece] = {}
        for key, node in self.node.entries:
            piece = YamlPiece(f"{self.path}.{key.text}".lstrip("."), node, self.notes)
            if known is None or key.text in known:
                pieces[key.text] = piece
            else:
                there = YamlPiece(piece.path, key, self.notes)
                there.fail("unknown key", nearest(key.text, known, ALIKE))
        return pieces

    def items(self) -> list[YamlPiece]:
        if self.is_empty:
            return []
        if not isinstance(self.node, Items):
            self.expected("a list")
            return []
        nodes = self.node.nodes
        return [YamlPiece(f"{self.path}[{n}]", node, self.notes) for n, node in enumerate(nodes)]

    def each(self, kind: Callable[[YamlPiece], Value | None], what: str) -> dict[str, Value] | None:
        """Read a mapping whose values are all of one kind."""
        before = self.mistakes
        if not isinstance(self.node, Mapped) or not self.node.entries:
            self.expected(what)
            return None
        read = {name: kind(piece) for name, piece in self.entries().items()}
        return None if self.mistakes > before else _whole(read)


def _whole(read: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in read.items() if value is not None}


# ---- kinds of values -------------------------------------------------------------------------


def text(piece: YamlPiece) -> str | None:
    if not isinstance(piece.node, YamlText) or piece.is_empty:
        piece.expected("a text")
    elif piece.is_nothing:
        piece.fail(f"expected a text, found {piece.found()}: leave the key out, or quote the text")
    else:
        return piece.node.text
    return None


def names(piece: YamlPiece) -> list[str] | None:
    """Read one name or a list of names."""
    if isinstance(piece.node, YamlText):
        one = text(piece)
        return None if one is None else [one]
    if not isinstance(piece.node, Items):
        piece.expected("a name or a list of names")
        return None
    read = [text(item) for item in piece.items()]
    return None if None in read else [name for name in read if name is not None]


def texts(piece: YamlPiece) -> dict[str, str] | None:
    return piece.each(text, "names and texts")


def plain_entries(piece: YamlPiece) -> dict[str, object] | None:
    """Read names with texts, lists of texts, or mappings of them."""
    return piece.each(_plain, "names and values")


def _plain(piece: YamlPiece) -> object | None:
    if isinstance(piece.node, Items):
        return names(piece)
    return text(piece) if isinstance(piece.node, YamlText) else plain_entries(piece)


def number(piece: YamlPiece) -> int | None:
    node = piece.node
    if isinstance(node, YamlText) and node.plain and re.fullmatch(r"-?[0-9]{1,18}", node.text):
        return int(node.text)
    piece.expected("a whole number")
    return None


def truth(piece: YamlPiece) -> bool | None:
    node = piece.node
    if isinstance(node, YamlText) and node.plain and node.text.lower() in TRUTHS:
        return TRUTHS[node.text.lower()]
    piece.expected("true or false")
    return None


def expression(piece: YamlPiece) -> str | None:
    """Read a SQL expression; here `null` is a value."""
    if not isinstance(piece.node, YamlText) or not piece.node.text.strip():
        piece.expected("an expression")
        return None
    return expanded(piece, piece.node.text)


def condition(piece: YamlPiece) -> str | None:
    """Read a SQL condition; a blank one means all rows."""
    if piece.is_nothing and not piece.is_empty:
        piece.fail("null is not a condition: leave the key out to mean all rows")
        return None
    if isinstance(piece.node, YamlText):
        return expanded(piece, piece.node.text) if piece.node.text.strip() else ""
    piece.expected("a condition")
    return None


def expressions(piece: YamlPiece) -> dict[str, str] | None:
    if isinstance(piece.node, Mapped) and piece.node.flow:
        for name, given in piece.entries().items():
            if given.is_empty:
                hint = "within {…} a comma ends a value: quote an expression that contains one"
                piece.fail(f"{name!r} has no expression; {hint}")
                return None
    return piece.each(expression, "columns and their expressions")


def listed_expressions(piece: YamlPiece) -> list[str] | None:
    if isinstance(piece.node, Items) and not piece.node.nodes:
        piece.fail("name at least one column")
    read = [
        expression(item)
        for item in ([piece] if isinstance(piece.node, YamlText) else piece.items())
    ]
    return None if None in read else [one for one in read if one is not None]


# ---- selectors -------------------------------------------------------------------------------


def expanded(piece: YamlPiece, written: str) -> str | None:
    """Replace each selector by its condition in parentheses."""
    selectors = piece.notes.selectors
    named = SELECTOR.findall(written)
    for name in named:
        if name not in selectors:
            piece.fail(f"unknown selector {name!r}", nearest(name, selectors, ALIKE))
    if any(selectors.get(name) is None for name in named):
        return None
    return SELECTOR.sub(lambda found: selectors[found[1]] or "", written)


def read_selectors(pieces: Mapping[str, YamlPiece]) -> None:
    """Read selectors in dependency order; a cycle is a mistake."""
    uses = {
        name: [other for other in _named_in(piece) if other in pieces]
        for name, piece in pieces.items()
    }
    while circle := _circle(uses):
        first = pieces[circle[0]]
        first.fail(f"cycle: {' → '.join(circle)}")
        first.notes.selectors |= dict.fromkeys(circle)
        uses |= {name: [] for name in circle}
    for name in TopologicalSorter(uses).static_order():
        selectors = pieces[name].notes.selectors
        if name not in selectors:
            written = expression(pieces[name])
            selectors[name] = None if written is None else _bracketed(written)


def _named_in(piece: YamlPiece) -> list[str]:
    return SELECTOR.findall(piece.node.text) if isinstance(piece.node, YamlText) else []


def _circle(uses: Mapping[str, list[str]]) -> list[str]:
    """Return a cycle of names, each using the next; empty if there is none."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def _bracketed(written: str) -> str:
    # Break the line: a comment at the end must not swallow the parenthesis.
    return f"({written}\n)" if "--" in written else f"({written})"
