"""Expressions that a plan cannot contain: their value depends on more than the row and the run, or
they make and drop rows that nothing accounts for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.engine.expressions import sql_words
from tallyman.engine.expressions.clock import bare_functions
from tallyman.engine.expressions.functions import GENERATORS, UNSTABLE, WITHOUT_PARENTHESES
from tallyman.engine.expressions.outside import reaches_outside
from tallyman.engine.expressions.sql_words import Call, Token

_SPARKS_OWN = frozenset(name.lower() for name in dir(F)) | frozenset(
    {
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "like",
        "rlike",
        "between",
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast",
        "over",
        "as",
        "date",
        "timestamp",
        "interval",
        "struct",
        "named_struct",
        "map",
        "exists",
        "filter",
    }
)
_SPECIAL = re.compile(r"r?['\"]\s*(now|today|tomorrow|yesterday)(?![a-z])", re.I)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an expression: the columns it may name, and how Spark analyzes it there."""

    columns: Sequence[str]
    shape: Callable[[Column], DataFrame]
    rows: DataFrame
    is_aggregate: bool = False


def refusals(expression: str, place: Place) -> list[str]:
    """List why the expression is not allowed there, and what to write instead."""
    if expression in place.columns:
        return []
    found = list(dict.fromkeys(_by_name(expression, place.columns)))
    if not found:
        found += _special_dates(expression, place)
    # Names alone show that it calls only Spark's own functions.
    if not found and any(call.name not in _SPARKS_OWN for call in sql_words.calls(expression)):
        found += _by_analysis(expression, place)
    return [f"{expression!r} {reason}" for reason in found]


def _by_name(text: str, columns: Sequence[str]) -> Iterator[str]:
    listed = sql_words.calls(text)
    names = [call.name for call in listed]
    names += [token.value for token in bare_functions(text, columns)]
    for name in names:
        if reason := GENERATORS.get(name) or UNSTABLE.get(name):
            yield reason
    if any(call.name == "aes_encrypt" and not _says_iv(call) for call in listed):
        yield "draws an initialization vector each time; give one as the fifth argument"
    yield from reaches_outside(text)
    if any(name in WITHOUT_PARENTHESES for name in _lambda_names(text)):
        yield "has a parameter with the name of a Spark function; give it another name"


def _says_iv(call: Call) -> bool:
    texts = [token.value.strip("'\"").upper() for each in call.arguments for token in each]
    return len(call.arguments) > 4 or "ECB" in texts


def _lambda_names(text: str) -> list[str]:
    """List every parameter before an arrow."""
    found: list[str] = []
    listed = sql_words.tokens(text)
    for number, token in enumerate(listed):
        if token.kind != "sign" or token.value != "->":
            continue
        back = number - 1
        while back >= 0 and (listed[back].is_name or listed[back].value in ("(", ")", ",")):
            found += [listed[back].value] if listed[back].is_name else []
            if listed[back].value == "(" or listed[number - 1].is_name:
                break
            back -= 1
    return found


def _special_dates(sql: str, place: Place) -> list[str]:
    """Refuse texts like 'now' where Spark makes a date or timestamp of them, as it reads the
    clock.
    """
    listed = sql_words.tokens(sql)
    special = [t for t in listed if t.kind == "text" and _SPECIAL.match(t.value)]
    if not special:
        return []
    typed = any(
        t in special and before.kind == "word" and before.value.startswith(("date", "timestamp"))
        for before, t in pairwise(listed)
    )
    cast = any(
        any(t in special for t in (call.arguments or ((),))[0])
        for call in sql_words.calls(sql)
        if "date" in call.name or "time" in call.name
    )
    if typed or cast or _needs_dates(sql, special, place):
        words = ", ".join(token.value for token in special)
        return [f"turns {words} into a time; write current_timestamp() or current_date()"]
    return []


def _needs_dates(sql: str, special: list[Token], place: Place) -> bool:
    """True if Spark accepts a date in place of the text, but not a boolean. Where it needs text, it
    accepts both or neither.
    """
    date, boolean = (_instead(sql, special, f"CAST(NULL AS {k})") for k in ("DATE", "BOOLEAN"))
    return _holds(sql, place) and _holds(date, place) and not _holds(boolean, place)


def _instead(sql: str, replaced: list[Token], by: str) -> str:
    written: list[str] = []
    position = 0
    for token in replaced:
        written += [sql[position : token.start], by]
        position = token.end
    return "".join([*written, sql[position:]])


def _holds(sql: str, place: Place) -> bool:
    try:
        _ = place.shape(F.expr(sql)).schema
    except Exception:  # Spark's message is reported where the step is applied
        return False
    return True


def _by_analysis(sql: str, place: Place) -> list[str]:
    """Let Spark find functions that are declared nondeterministic, such as UDFs.

    Spark refuses them in the condition of a join, and next to an observed aggregate.
    """
    try:
        column = F.expr(sql)
        if place.is_aggregate:
            _ = place.rows.observe("_tm_probe", column.alias("_tm_observed")).schema
        else:
            other = place.rows.sparkSession.range(0).toDF("_tm_other")
            _ = place.rows.join(other, F.struct(column).isNotNull()).schema
    except Exception as error:  # anything else is reported where the step is applied
        condition = error.getCondition() if isinstance(error, AnalysisException) else None
        if "DETERMINISTIC" in (condition or ""):
            return ["calls a function that is declared nondeterministic; derive it from the key"]
    return []
