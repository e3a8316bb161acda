"""One part of a pipeline that is written as data, in JSON or in YAML, with its path.

A value is what json.loads returns. A value of a YAML file also knows its line, and it is always a
text, a list or a mapping: whether `1.10` is a number is decided where a number is expected. Reading
trusts nothing: a part of the wrong kind is read as None, and the mistake is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyman.errors import Problem
from tallyman.errors.wording import nearest

Json = Any
"""A value as json.loads returns it."""
SELECTOR = re.compile(r"\{\{\s*(.*?)\s*\}\}")
NOTHING = ("", "~", "null")
ALIKE = 0.5
"""How similar a wrong word must be to a known one to be suggested as a typo."""
TRUTHS: Mapping[str, bool] = {"true": True, "false": False}
LONGEST = 80
"""The most characters shown of a value."""
LARGEST_WHOLE = 2**63 - 1


class YamlText(str):
    line: int
    plain: bool
    """True if not quoted: only then may it be a number, true, false or null."""

    @classmethod
    def of(cls, text: str, line: int, *, plain: bool = False) -> YamlText:
        made = cls(text)
        made.line, made.plain = line, plain
        return made


class YamlList(list[Json]):
    line: int


class YamlMapping(dict[str, Json]):
    line: int
    flow: bool
    """True if written as {…}, where a comma ends a value."""


@dataclass
class Notes:
    """The state of reading one document: its mistakes, and the selectors it defines."""

    file: str | None = None
    problems: list[Problem] = field(default_factory=list)
    selectors: dict[str, str | None] | None = None
    """None if the document cannot have selectors; the text of one that is a mistake is None."""
    steps: int = 0
    """The steps of the asset that is being read."""


@dataclass(frozen=True, slots=True)
class Piece:
    path: str
    value: Json
    notes: Notes

    def fail(self, message: str, nearest: str | None = None, *, at: Json = None) -> None:
        """Record a mistake, at the line of this part or of another value."""
        line = getattr(self.value if at is None else at, "line", None)
        file = self.notes.file
        place = file if line is None else f"{file}:{line}"
        where = ": ".join(filter(None, (place, self.path))) or "pipeline"
        self.notes.problems.append(Problem(where, message, nearest, file, line))

    def expected(self, what: str) -> None:
        self.fail(f"expected {what}, found {self.found()}")

    def found(self) -> str:
        """Describe the part for a message."""
        match self.value:
            case list():
                return "a list"
            case dict():
                return "a mapping"
            case bool():
                return str(self.value).lower()
            case None:
                return "null"
        return "nothing" if self.is_empty else repr(self.value)[:LONGEST]

    @property
    def mistakes(self) -> int:
        return len(self.notes.problems)

    @property
    def word(self) -> str | None:
        """The text in lower case if it is not quoted: only then it may mean something else."""
        return self.value.lower() if getattr(self.value, "plain", False) else None

    @property
    def is_empty(self) -> bool:
        return self.word == ""

    @property
    def is_nothing(self) -> bool:
        return self.value is None or self.word in NOTHING

    # ---- parts of it -------------------------------------------------------------------------

    def entries(self, known: Collection[str] | None = None) -> dict[str, Piece]:
        """Return the parts of a mapping by name; unknown names are mistakes."""
        if self.is_empty:
            return {}
        if not isinstance(self.value, dict):
            self.expected("names and values")
            return {}
        pieces: dict[str, Piece] = {}
        for key, value in self.value.items():
            if not self._is_unicode(key):
                continue
            piece = Piece(f"{self.path}.{key}".lstrip("."), value, self.notes)
            if known is None or key in known:
                pieces[str(key)] = piece
            else:
                piece.fail("unknown key", nearest(key, known, ALIKE), at=key)
        return pieces

    def pairs(self, what: str) -> dict[str, Piece]:
        """Return the parts of a mapping whose order counts: it may be a list of [name, value]."""
        if isinstance(self.value, dict):
            return self.entries()
        if not isinstance(self.value, list):
            self.expected(what)
            return {}
        pieces: dict[str, Piece] = {}
        for piece in self.items():
            if not isinstance(piece.value, list) or len(piece.value) != 2:
                piece.expected("[name, value]")
                continue
            name, value = piece.items()
            if (text := name.text()) is None:
                continue
            if text in pieces:
                self.fail(f"{text!r} is named twice")
            pieces[text] = value
        return pieces

    def items(self) -> list[Piece]:
        if self.is_empty:
            return []
        if not isinstance(self.value, list):
            self.expected("a list")
            return []
        return [Piece(f"{self.path}[{n}]", value, self.notes) for n, value in enumerate(self.value)]

    # ---- values ------------------------------------------------------------------------------

    def text(self) -> str | None:
        if not isinstance(self.value, str) or self.is_empty:
            self.expected("a text")
        elif self.is_nothing:
            found = self.found()
            self.fail(f"expected a text, found {found}: leave the key out, or quote the text")
        elif self._is_unicode(self.value):
            return str(self.value)
        return None

    def truth(self) -> bool | None:
        if isinstance(self.value, bool):
            return self.value
        if self.word in TRUTHS:
            return TRUTHS[self.word]
        self.expected("true or false")
        return None

    def whole(self, least: int = 0) -> int | None:
        number = self.value
        if self.word is not None and re.fullmatch(r"-?[0-9]{1,18}", self.word):
            number = int(self.word)
        if not isinstance(number, int) or isinstance(number, bool):
            self.expected("a whole number")
        elif not least <= number <= LARGEST_WHOLE:
            self.fail(f"{number} is not a whole number of {least} or more")
        else:
            return number
        return None

    def number(self) -> int | float | None:
        """Read a finite number. A whole one is an int: 1 and 1.0 have equal bytes."""
        number = self.value
        if self.word is not None and re.fullmatch(r"-?[0-9]{0,18}[.]?[0-9]{1,18}", self.word):
            number = float(self.word)
        if not isinstance(number, (int, float)) or isinstance(number, bool):
            self.expected("a number")
        elif not abs(number) <= LARGEST_WHOLE:  # not if it is not a number
            self.fail(f"{number} is not a number from -2^63 to 2^63")
        else:
            return int(number) if number == int(number) else number
        return None

    def expression(self) -> str | None:
        """Read a SQL expression; here `null` is a value."""
        if not isinstance(self.value, str) or not self.value.strip():
            self.expected("an expression")
            return None
        return self._expanded()

    def condition(self) -> str | None:
        """Read a SQL condition; a blank one means all rows."""
        if self.is_nothing and not self.is_empty:
            self.fail("null is not a condition: leave the key out to mean all rows")
        elif not isinstance(self.value, str):
            self.expected("a condition")
        elif self.value.strip():
            return self._expanded()
        return None

    def _expanded(self) -> str | None:
        """Replace each selector by its condition in parentheses."""
        selectors = self.notes.selectors
        if not self._is_unicode(self.value):
            return None
        if selectors is None:
            return str(self.value)
        named = SELECTOR.findall(self.value)
        for name in named:
            if name not in selectors:
                self.fail(f"unknown selector {name!r}", nearest(name, selectors, ALIKE))
        if any(selectors.get(name) is None for name in named):
            return None
        return SELECTOR.sub(lambda found: selectors[found[1]] or "", self.value)

    def _is_unicode(self, text: str) -> bool:
        """True if the text can be stored and sent."""
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail("the text is not valid Unicode")
            return False
        return True
