"""The run's clock: every expression sees the time of the run, whenever it is evaluated."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Self

from tallyman.engine.expressions import sql_words
from tallyman.engine.expressions.functions import CLOCK, WITHOUT_PARENTHESES
from tallyman.engine.expressions.sql_words import Token

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Words that an operand may follow; after any other operand a name is an alias.
_BEFORE_OPERAND = frozenset(
    {
        "and",
        "or",
        "not",
        "between",
        "when",
        "then",
        "else",
        "case",
        "in",
        "like",
        "rlike",
        "ilike",
        "regexp",
        "is",
        "from",
        "distinct",
        "by",
        "div",
        "all",
        "any",
        "some",
        "escape",
        "on",
        "using",
        "placing",
        "for",
    }
)


class Timed(str):
    """An expression that reads the clock, as written, and the time that a run gives it."""

    moment: datetime

    @classmethod
    def of(cls, written: str, moment: datetime) -> Self:
        found = cls(written)
        found.moment = moment
        return found


def reads_clock(text: str) -> bool:
    """True if the text calls the clock. A name that may be a column counts too."""
    return any(name in CLOCK for _, _, name in _uses(text, ()))


def pinned(text: str, moment: datetime, columns: Collection[str]) -> str:
    """Replace the clock in an expression by literals of the same types."""
    written: list[str] = []
    position = 0
    for start, end, name in _uses(text, columns):
        if name in CLOCK:
            written += [text[position:start], _literal(name, moment)]
            position = end
    return "".join([*written, text[position:]])


def _literal(name: str, moment: datetime) -> str:
    instant = f"TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z'"
    match name:
        case "current_date" | "curdate":
            return f"CAST({instant} AS DATE)"  # the day in the session's time zone, as in Spark
        case "localtimestamp":
            return f"CAST({instant} AS TIMESTAMP_NTZ)"
        case "unix_timestamp":
            return f"{(moment - EPOCH).days * 86_400 + (moment - EPOCH).seconds}L"
    return instant


def _uses(text: str, columns: Collection[str]) -> list[tuple[int, int, str]]:
    """Find calls of functions without arguments, with or without parentheses."""
    found = [
        (call.start, call.end, call.name) for call in sql_words.calls(text) if not call.arguments
    ]
    found += [(token.start, token.end, token.value) for token in bare_functions(text, columns)]
    return sorted(found)


def bare_functions(text: str, columns: Collection[str]) -> Iterator[Token]:
    """Yield names without parentheses that Spark takes for a function, as no column has the
    name.
    """
    listed = sql_words.tokens(text)
    known = {name.lower() for name in columns}
    around = zip([None, *listed], listed, [*listed[1:], None], strict=False)
    for before, token, after in around:
        if not token.is_name or token.value not in WITHOUT_PARENTHESES or token.value in known:
            continue
        if after is not None and after.value in ("(", ".", "=>"):
            continue
        if before is None or _expects_operand(before):
            yield token


def _expects_operand(before: Token) -> bool:
    if before.kind == "word":
        return before.value in _BEFORE_OPERAND
    return before.kind == "sign" and before.value not in (")", "]", ".", ":", "::")
