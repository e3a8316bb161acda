"""Tables: datasets with rows that people write. Their schema, key and references."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallyman.domain.version.dataset import DATASET_NAME, checked_name
from tallyman.domain.version.table_rules import ValueRule, value_rules
from tallyman.errors import UsageError
from tallyman.errors.wording import nearest

RESERVED = "_tm"
LIMITS = ("at_least", "at_most")
"""How many rows may refer to one key."""
SUPPORTED = (
    "string, boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), date, "
    "timestamp, timestamp_ntz, binary"
)

_SAME = {"integer": "int", "long": "bigint"}
_PLAIN = frozenset(SUPPORTED.split(", ")) - {"decimal(p,s)"} | _SAME.keys()
_COLUMN = re.compile(
    r"(?P<name>`(?:[^`]|``)+`|[A-Za-z0-9_]+)\s+(?P<type>.+?)(?P<required>\s+not\s+null)?",
    re.IGNORECASE | re.DOTALL,
)
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column. `type` is a supported type as Spark spells it: "bigint", "decimal(10,2)"."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A rule that every value of `column` except NULL is a key of `table`, in its column `to`; and
    that each key is referred to by at least and at most so many rows.
    """

    column: str
    table: str
    to: str
    at_least: int = 0
    at_most: int | None = None

    @property
    def target(self) -> str:
        return f"{self.table}.{self.to}"

    @property
    def counts(self) -> str | None:
        """Say how many rows may refer to a key; None if any number may."""
        if not self.at_least and self.at_most is None:
            return None
        least = f"at least {self.at_least}" if self.at_least else ""
        most = "" if self.at_most is None else f"at most {self.at_most}"
        return " and ".join(filter(None, (least, most)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A declared table: a schema, a key that no two rows share, and references that always hold."""

    name: str
    schema: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    rules: tuple[ValueRule, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        schema: str,
        key: str | Sequence[str],
        references: Mapping[str, object] | None = None,
        rules: Mapping[str, object] | None = None,
    ) -> Table:
        """Declare a table; UsageError lists every mistake."""
        keys = (key,) if isinstance(key, str) else tuple(key)
        given = dict(references or {})
        columns, mistakes = _columns(schema, keys)
        mistakes += [*_key_mistakes(keys, columns), *_reference_mistakes(given, columns)]
        ruled, wrong = value_rules(rules or {}, columns)
        mistakes += wrong
        if mistakes:
            raise UsageError(f"table {name}: " + "; ".join(mistakes))
        made = [_reference(column, to) for column, to in given.items()]
        return cls(
            name=checked_name(name),
            schema=schema,
            columns=tuple(columns),
            key=keys,
            references=tuple(made),
            rules=tuple(ruled),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def nearest(self, name: str) -> str | None:
        return nearest(name, self.names)


def _columns(schema: str, keys: Sequence[str]) -> tuple[list[Column], list[str]]:
    """Parse a schema to columns, and list the mistakes."""
    columns: list[Column] = []
    mistakes: list[str] = []
    for text in _pieces(schema):
        match = _COLUMN.fullmatch(text)
        if match is None:
            mistakes.append(f"{text!r} is not a column: write name and type, separated by commas")
            continue
        name, kind = _unquoted(match["name"]), _type(match["type"])
        if kind is None:
            mistakes.append(f"column {name!r}: {match['type']!r} is not one of {SUPPORTED}")
        if name.lower().startswith(RESERVED):
            mistakes.append(f"column {name!r}: names that start with {RESERVED} are reserved")
        # Spark and DuckDB both treat `a` and `A` as the same column.
        if any(name.lower() == column.name.lower() for column in columns):
            mistakes.append(f"column {name!r} is declared twice")
        nullable = match["required"] is None and name not in keys
        columns.append(Column(name=name, type=kind or "string", nullable=nullable))
    if not columns and not mistakes:
        mistakes.append("the schema names no column")
    return columns, mistakes


def spark_columns(schema: str) -> list[tuple[str, str]]:
    """List name and type of each column of a schema, whatever the types are."""
    found = (_COLUMN.fullmatch(text) for text in _pieces(schema))
    return [(_unquoted(match["name"]), match["type"].strip()) for match in found if match]


def _pieces(schema: str) -> Iterator[str]:
    """Split at the commas between columns, not at those in `a,b`, decimal(1,0) or map<a,b>."""
    piece, depth, quoted = "", 0, False
    for character in schema:
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0 and not quoted:
            yield piece.strip()
            piece = ""
        else:
            piece += character
    if piece.strip():
        yield piece.strip()


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _type(text: str) -> str | None:
    """Return the type in its canonical spelling; None if tables cannot hold it."""
    lower = " ".join(text.lower().split())
    if lower in _PLAIN:
        return _SAME.get(lower, lower)
    match = _DECIMAL.fullmatch(lower)
    if match is None:
        return None
    digits, scale = int(match[1] or 10), int(match[2] or 0)
    if not (1 <= digits <= _MOST_DIGITS and scale <= digits):
        return None
    return f"decimal({digits},{scale})"


def _key_mistakes(keys: Sequence[str], columns: Sequence[Column]) -> Iterator[str]:
    if not keys:
        yield "it needs a key"
    if len(set(keys)) != len(keys):
        yield "the key names a column twice"
    yield from (_unknown("the key", name, columns) for name in keys if not _has(columns, name))


def _reference(column: str, given: object) -> Reference:
    """Read "table.column", or a mapping with `to`, `at_least` and `at_most`."""
    limits = dict(given) if isinstance(given, Mapping) else {"to": given}
    table, _, to = str(limits.pop("to")).partition(".")
    numbers = {str(word): int(str(number)) for word, number in limits.items()}
    return Reference(column=column, table=table, to=to, **numbers)


def _reference_mistakes(given: Mapping[str, object], columns: Sequence[Column]) -> Iterator[str]:
    for column, written in given.items():
        if not _has(columns, column):
            yield _unknown("a reference", column, columns)
        limits = dict(written) if isinstance(written, Mapping) else {"to": written}
        to = limits.pop("to", None)
        table, _, referenced = str(to).partition(".")
        if not DATASET_NAME.fullmatch(table) or not referenced:
            yield f"column {column!r} refers to {to!r}: write it as table.column"
        yield from (f"column {column!r}: {each}" for each in _limit_mistakes(limits))


def _limit_mistakes(limits: Mapping[object, object]) -> Iterator[str]:
    """Report what is wrong with the numbers of rows that may refer to a key."""
    for word, number in limits.items():
        if word not in LIMITS:
            yield f"a reference has `to`, {' and '.join(LIMITS)}, not {word!r}"
        elif not str(number).isdecimal():
            yield f"{word}: expected a whole number, not {number!r}"
    least, most = (limits.get(word) for word in LIMITS)
    if str(least).isdecimal() and str(most).isdecimal() and int(str(least)) > int(str(most)):
        yield f"at_least {least} is more than at_most {most}"


def _has(columns: Sequence[Column], name: str) -> bool:
    return any(column.name == name for column in columns)


def _unknown(what: str, name: str, columns: Sequence[Column]) -> str:
    near = nearest(name, [column.name for column in columns])
    return f"{what} names {name!r}, which is not a column" + (
        f"; did you mean {near!r}?" if near else ""
    )
