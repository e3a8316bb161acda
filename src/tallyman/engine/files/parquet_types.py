"""Types of Parquet columns, named as in a declared schema, and which of them widen without loss.

Nothing here needs Spark: footers are compared before a run, and again when `why` reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

NANOSECONDS = {
    "timestamp in nanoseconds": "timestamp",
    "timestamp_ntz in nanoseconds": "timestamp_ntz",
}
"""Types that Spark does not have, and the type that holds values of whole microseconds."""
DURATION = "duration"
COUNTS = (*NANOSECONDS, DURATION)
"""Types stored as a 64-bit count, which can be declared as bigint to read the count itself."""
NOTHING = "void"
"""The type of a column that has no value in any row of its file, as pandas writes it."""
EXACT = 1 << 53
"""Integers up to this size are exact as a double."""

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_NUMBERS = {
    "tinyint": {"smallint", "int", "bigint", "float", "double"},
    "smallint": {"int", "bigint", "float", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
}
_SPARK_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_MOST_DIGITS = 38
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type by its name in a declared schema, with the types inside it."""

    name: str
    inside: tuple[tuple[str, ColumnType], ...] = ()
    exact: bool = field(default=False, compare=False)
    """True for a bigint of which the footer shows that every value is exact as a double."""
    known: bool = True
    """False if Spark does not read such columns."""

    def __str__(self) -> str:
        if self.name == "struct":
            return f"struct<{','.join(f'{_quoted(name)}:{kind}' for name, kind in self.inside)}>"
        if self.inside:
            return f"{self.name}<{','.join(str(kind) for _, kind in self.inside)}>"
        return self.name

    @property
    def readable(self) -> bool:
        """True if Spark reads the type and everything inside it."""
        return self.known and all(kind.readable for _, kind in self.inside)

    @property
    def fields(self) -> dict[str, ColumnType]:
        return dict(self.inside)

    def any(self, names: Collection[str]) -> bool:
        """True if the type or a type inside it has one of these names."""
        return self.name in names or any(kind.any(names) for _, kind in self.inside)


def _quoted(name: str) -> str:
    if _WORD.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


# ---- reading types --------------------------------------------------------------------------


def of_spark(said: Any) -> ColumnType:
    """Read a type as Spark writes it in JSON: in a footer, or of a declared schema."""
    if isinstance(said, str):
        return ColumnType(_SPARK_NAMES.get(said, said))
    if said["type"] == "array":
        return ColumnType("array", (("element", of_spark(said["elementType"])),))
    if said["type"] == "map":
        inside = (("key", of_spark(said["keyType"])), ("value", of_spark(said["valueType"])))
        return ColumnType("map", inside)
    if said["type"] == "struct":
        return ColumnType("struct", tuple((f["name"], of_spark(f["type"])) for f in said["fields"]))
    return of_spark(said["sqlType"])  # a user-defined type is stored as another one


def of_footer(footer: pq.FileMetaData) -> dict[str, ColumnType]:
    """Read the types from the Parquet schema, as Spark reads them."""
    schema = footer.schema
    leaves = (schema.column(number).physical_type for number in range(footer.num_columns))
    return {column.name: _of_arrow(column.type, leaves) for column in schema.to_arrow_schema()}


def _of_arrow(kind: pa.DataType, leaves: Iterator[str]) -> ColumnType:
    """Translate one type; `leaves` are the physical types of the columns below, in order."""
    if kinds.is_struct(kind):
        fields = (kind.field(n) for n in range(kind.num_fields))
        return ColumnType("struct", tuple((f.name, _of_arrow(f.type, leaves)) for f in fields))
    if kinds.is_map(kind):
        inside = (("key", _of_arrow(kind.key_type, leaves)),)
        return ColumnType("map", (*inside, ("value", _of_arrow(kind.item_type, leaves))))
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return ColumnType("array", (("element", _of_arrow(kind.value_type, leaves)),))
    physical = next(leaves)
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if kinds.is_timestamp(kind):
        return ColumnType(_timestamp(kind, physical))
    if kinds.is_decimal(kind) and kind.precision <= _MOST_DIGITS and kind.scale >= 0:
        return ColumnType(f"decimal({kind.precision},{kind.scale})")
    name = _PLAIN.get(str(kind))
    if name is None and kinds.is_fixed_size_binary(kind):
        name = "binary"
    if name is None and kinds.is_duration(kind):
        name = DURATION
    return ColumnType(str(kind), known=False) if name is None else ColumnType(name)


def _timestamp(kind: pa.TimestampType, physical: str) -> str:
    if physical == "INT96":  # old Spark and Hive: an instant, and Spark reads microseconds of it
        return "timestamp"
    name = "timestamp" if kind.tz is not None else "timestamp_ntz"
    return f"{name} in nanoseconds" if kind.unit == "ns" else name


_PLAIN = {
    "null": NOTHING,
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    # Spark reads unsigned numbers as the next larger type with a sign.
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
}


PARQUET_HAS = {*_PLAIN.values(), "timestamp", "timestamp_ntz", "array", "map", "struct"}
"""Types that a Parquet schema distinguishes; decimals have their precision in the name."""


PLAIN = PARQUET_HAS - {NOTHING}


def is_plain(fields: Iterable[StructField]) -> bool:
    """True if no field has a type that only Spark knows, such as an interval or a collation: other
    readers of its files see the values that Spark sees.
    """
    names = (field.dataType.simpleString() for field in fields)
    return all(name in PLAIN or name.startswith("decimal(") for name in names)


# ---- widening -------------------------------------------------------------------------------


def widens(found: ColumnType, wanted: ColumnType) -> bool:
    """True if every value of a file's column is a value of the wanted type.

    Nanoseconds do where they are whole microseconds; records with others are rejected.
    """
    if not found.known:
        return False
    if found == wanted or found.name == NOTHING:
        return True
    if found.name in COUNTS:
        return wanted.name in (NANOSECONDS.get(found.name), "bigint")
    if found.inside or wanted.inside:
        return found.name == wanted.name and _widens_inside(found, wanted)
    if found.name == "bigint" and wanted.name == "double":
        return found.exact
    if decimal := _decimal(wanted.name):
        return _fits(found.name, *decimal)
    return wanted.name in _NUMBERS.get(found.name, ())


def _widens_inside(found: ColumnType, wanted: ColumnType) -> bool:
    there = found.fields
    if found.name == "struct" and _other_case(there, wanted.fields):
        return False
    both = [(there[name], kind) for name, kind in wanted.inside if name in there]
    if not both and not any(kind.readable for kind in there.values()):
        return False
    return all(widens(mine, theirs) for mine, theirs in both)


def _other_case(there: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    """True if a name differs only in case: Spark would take one field for the other."""
    lower = {name.lower() for name in there if name not in wanted}
    return any(name.lower() in lower for name in wanted)


def _decimal(name: str) -> tuple[int, int] | None:
    found = _DECIMAL.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def _fits(name: str, precision: int, scale: int) -> bool:
    """True if every value of a number type is a decimal of this precision and scale."""
    if digits := _DIGITS.get(name):
        return precision - scale >= digits
    if decimal := _decimal(name):
        return decimal[1] <= scale and decimal[0] - decimal[1] <= precision - scale
    return False


def common(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """Find the smallest type that both widen to; None if there is none."""
    if one.inside and one.name == other.name:
        return _common_inside(one, other)
    for narrow, wide in ((one, other), (other, one)):
        counted = narrow.name in COUNTS and wide.name == "bigint"  # a count and a number
        if not counted and widens(narrow, wide):
            return wide
    names = {one.name, other.name}
    if names <= {"int", "float"}:
        return ColumnType("double")
    return _common_decimal(one.name, other.name)


def _common_decimal(one: str, other: str) -> ColumnType | None:
    sides = [_decimal(name) or (_DIGITS.get(name, 0), 0) for name in (one, other)]
    if not any(map(_decimal, (one, other))) or not all(digits for digits, _ in sides):
        return None
    scale = max(scale for _, scale in sides)
    precision = max(digits - scale for digits, scale in sides) + scale
    return ColumnType(f"decimal({precision},{scale})") if precision <= _MOST_DIGITS else None


def _common_inside(one: ColumnType, other: ColumnType) -> ColumnType | None:
    mine, theirs = one.fields, other.fields
    if one.name == "struct" and _other_case(mine, theirs):
        return None
    inside = []
    for name, kind in (mine | {n: k for n, k in theirs.items() if n not in mine}).items():
        found = common(kind, theirs[name]) if name in theirs and name in mine else kind
        if found is None:
            return None
        inside.append((name, found))
    return ColumnType(one.name, tuple(inside))


def resolved(kind: ColumnType) -> ColumnType:
    """Return the type that a column without a declaration gets."""
    inside = tuple((name, resolved(each)) for name, each in kind.inside)
    return ColumnType(NANOSECONDS.get(kind.name, kind.name), inside, known=kind.known)


def converted(found: ColumnType, wanted: ColumnType) -> ColumnType:
    """Return the wanted parts of a file's type; counts that are wanted as such are numbers."""
    if found.name in COUNTS and wanted.name == "bigint":
        return wanted
    other = wanted.fields
    inside = tuple((n, converted(kind, other[n])) for n, kind in found.inside if n in other)
    if found.inside and not inside:  # whether the whole is NULL shows in any of its fields
        inside = tuple((n, kind) for n, kind in found.inside if kind.readable)[:1]
    return ColumnType(found.name, inside, found.exact, found.known)


def lacking(found: ColumnType, wanted: ColumnType, at: str = "") -> Iterator[str]:
    """Yield the wanted fields inside a column that the file's column does not have."""
    there = found.fields
    for name, kind in wanted.inside if found.inside else ():
        path = f"{at}.{name}" if wanted.name == "struct" else f"{at}[]"
        if name in there:
            yield from lacking(there[name], kind, path)
        else:
            yield path
