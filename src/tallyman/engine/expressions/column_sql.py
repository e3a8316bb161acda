"""SQL text for a Column, derived from what Spark prints for it.

The text is a guess. Callers compare both on a schema (`same_on`) and trust nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from tallyman.engine.expressions import sql_words
from tallyman.engine.expressions.sql_words import Token
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F
else:
    F = OnDemand("pyspark.sql.functions")

_OPERATORS = frozenset([*"+-*/%<>=!~&|^", "<=>"])
_WORDS = frozenset({"and", "or"})


def sql_of(printed: str) -> str:
    """Move operators between their operands: Spark prints `<(a, b)` for `a < b`."""
    listed = sql_words.tokens(printed)
    return _written(printed, listed, 0, len(listed))


def same_on(shape: Callable[[Column], DataFrame], column: Column, sql: str) -> bool:
    """True if Spark finds that both mean the same on these columns."""
    try:
        return shape(column).sameSemantics(shape(F.expr(sql)))
    except Exception:  # a text that Spark cannot parse is not the same
        return False


def _written(text: str, listed: list[Token], first: int, last: int) -> str:
    """Write the tokens from `first` to before `last`, with the text between them."""
    if first >= last:
        return ""
    written: list[str] = []
    position, number = listed[first].start, first
    while number < last:
        opening = _prefixed(listed, number, first, last)
        if opening is None:
            number += 1
            continue
        closing, commas = _closing(listed, opening)
        places = [opening, *commas, closing]
        operands = [_written(text, listed, start + 1, end) for start, end in pairwise(places)]
        operator = text[listed[number].start : listed[opening].start]
        written += [text[position : listed[number].start], _infix(operator, operands)]
        position, number = listed[closing].end, closing + 1
    return "".join([*written, text[position : max(position, listed[last - 1].end)]])


def _infix(operator: str, operands: list[str]) -> str:
    if len(operands) == 1:
        return f"({operator} ({operands[0]}))"
    return "(" + f" {operator} ".join(f"({operand})" for operand in operands) + ")"


def _prefixed(listed: list[Token], number: int, first: int, last: int) -> int | None:
    """Find the opening parenthesis of the operands of a prefix operator."""
    end = number
    while end < last and listed[end].kind == "sign" and listed[end].value in _OPERATORS:
        end += 1
    if end == number and listed[number].kind == "word" and listed[number].value in _WORDS:
        end += 1
    before = listed[number - 1] if number > first else None
    begins = before is None or before.value in ("(", ",", "->", "when", "then", "else", "case")
    follows = end < last and end > number and listed[end].value == "("
    glued = follows and listed[end].start == listed[end - 1].end
    return end if begins and glued else None


def _closing(listed: list[Token], opening: int) -> tuple[int, list[int]]:
    depth = 0
    commas: list[int] = []
    for number in range(opening, len(listed)):
        value = listed[number].value if listed[number].kind == "sign" else ""
        if value in ("(", "["):
            depth += 1
        elif value in (")", "]"):
            depth -= 1
            if depth == 0:
                return number, commas
        elif value == "," and depth == 1:
            commas.append(number)
    return len(listed) - 1, commas
