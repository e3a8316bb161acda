"""Expressions that reach outside their rows, found in their text alone: they call Java, read data
that no run has pinned, or name what they mean by a string."""

from __future__ import annotations

from collections.abc import Iterator

from tallyman.engine.expressions import sql_words
from tallyman.engine.expressions.functions import JAVA
from tallyman.engine.expressions.sql_words import Token

_SUBQUERY = frozenset({"select", "with", "from", "values", "table"})
_NOT_A_QUERY = frozenset({")", ",", ".", "=", "<", ">", "+", "-", "/", "::", "["})


def reaches_outside(text: str) -> Iterator[str]:
    """Yield why an expression may not be part of any plan, and what to write instead."""
    for call in sql_words.calls(text):
        if reason := JAVA.get(call.name):
            yield reason
        if call.name == "identifier":
            yield "names a function or column by a string; write the name itself"
    if any(_is_query(*three) for three in _threes(sql_words.tokens(text))):
        yield "contains a query, which reads data that the run has not pinned; join an input"


def _threes(listed: list[Token]) -> Iterator[tuple[Token, Token, Token]]:
    return zip(listed, listed[1:], listed[2:], strict=False)


def _is_query(opening: Token, word: Token, after: Token) -> bool:
    begins = opening.value == "(" and word.kind == "word" and word.value in _SUBQUERY
    return begins and (after.kind != "sign" or after.value not in _NOT_A_QUERY)
