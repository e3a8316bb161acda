"""The words of a Spark SQL expression: its calls, its names, and its string literals.

This follows Spark's lexer for strings, comments and quoted names: a word inside one of them is not
a word of the expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Wider than Spark's own whitespace: a character that Spark does not skip is a syntax error there.
_GAP = r"[\s\x00-\x1f\u180e\u200b-\u200d\ufeff]+|--(?:\\\r?\n|[^\r\n])*"
_TOKEN = re.compile(
    rf"(?P<gap>{_GAP})"
    r"|(?P<text>[rR]'[^']*'|[rR]\"[^\"]*\"|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)*`)|(?P<word>\w+)|(?P<sign><=>|->|=>|::|.)",
    re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
BUILT_IN: tuple[tuple[str, ...], ...] = ((), ("builtin",), ("system", "builtin"))
"""The qualifiers that the name of a built-in function may have."""
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """`text`, `quoted`, `word` or `sign`."""
    value: str
    """A name without its quotes, in lower case; everything else as written."""
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


@dataclass(frozen=True, slots=True)
class Call:
    """A call `name(…)`, from the first letter of the name to the closing parenthesis."""

    name: str
    """The name in lower case, without `system.builtin` but with any other qualifier."""
    arguments: tuple[tuple[Token, ...], ...]
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        if text.startswith("/*", position):
            position = _comment_end(text, position)
            continue
        found = _TOKEN.match(text, position)
        assert found is not None, "a sign is any character"
        position = found.end()
        kind, value = found.lastgroup or "sign", found.group()
        if kind == "quoted":
            value = value[1:-1].replace("``", "`").lower()
        elif kind == "word":
            value = value.lower()
        if kind != "gap":
            yield Token(kind, value, found.start(), found.end())


def _comment_end(text: str, start: int) -> int:
    """Find the end of a comment. Comments nest; one that is not closed extends to the end."""
    depth, position = 0, start
    while found := _COMMENT.search(text, position):
        depth += 1 if found.group() == "/*" else -1
        position = found.end()
        if depth == 0:
            return position
    return len(text)


def calls(text: str) -> list[Call]:
    """List every `name(` outside strings and comments, also with a quoted or qualified name."""
    listed = tokens(text)
    return [
        _call(listed, number)
        for number, token in enumerate(listed[:-1])
        if token.is_name and listed[number + 1].value == "("
    ]


def _call(listed: list[Token], number: int) -> Call:
    first = number
    while first > 1 and listed[first - 1].value == "." and listed[first - 2].is_name:
        first -= 2
    names = tuple(token.value for token in listed[first : number + 1 : 2])
    arguments, end = _arguments(listed, number + 1)
    name = names[-1] if names[:-1] in BUILT_IN else ".".join(names)
    return Call(name, arguments, listed[first].start, end)


def _arguments(listed: list[Token], opening: int) -> tuple[tuple[tuple[Token, ...], ...], int]:
    found: list[list[Token]] = [[]]
    depth, end = 0, listed[-1].end
    for token in listed[opening:]:
        is_sign = token.kind == "sign"
        if is_sign and token.value in _CLOSING:
            depth -= 1
            if depth == 0:
                end = token.end
                break
        if is_sign and token.value == "," and depth == 1:
            found.append([])
        elif depth:
            found[-1].append(token)
        if is_sign and token.value in _OPENING:
            depth += 1
    given = tuple(tuple(each) for each in found)
    return (() if given == ((),) else given), end
