"""Kinds of values in the compiled form: each is written, read and described in one place.

A value of the wrong kind is a Misshapen with its path. Documents may come from anywhere, so reading
trusts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Protocol

from tallyman.errors.wording import nearest

Json = Any
"""A value as json.loads returns it."""


class Misshapen(Exception):
    """A part of a document, or of a plan, that the compiled form cannot have."""

    def __init__(self, where: str, message: str, nearest: str | None = None) -> None:
        super().__init__(where, message)
        self.where, self.message, self.nearest = where, message, nearest


class ToSql(Protocol):
    def __call__(self, given: object, where: str, *, named: bool) -> str:
        """Write an expression as SQL, with its alias if `named`; raise Misshapen if there is none
        or it is not allowed."""
        ...


@dataclass(slots=True)
class Written:
    """The steps of one asset written so far: a plan that uses itself doubles with each use."""

    steps: int = 0


@dataclass(frozen=True, slots=True)
class FormWriting:
    """The state of writing one asset: its place for messages, and how a Column becomes SQL."""

    where: str
    to_sql: ToSql
    written: Written = field(default_factory=Written)
    depth: int = 0

    def at(self, where: str) -> FormWriting:
        return replace(self, where=where)


class FormKind(Protocol):
    def write(self, value: Any, writing: FormWriting) -> Json: ...

    def read(self, value: Json, where: str) -> Any: ...

    def schema(self) -> dict[str, Json]: ...


def expected(what: str, value: Json, where: str) -> Misshapen:
    found = {
        str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list",
        dict: "an object", type(None): "null",
    }.get(type(value), type(value).__name__)  # fmt: skip
    return Misshapen(where, f"expected {what}, found {found}")


def checked_text(value: object, where: str) -> str:
    """Return a text that can be stored and sent: valid Unicode."""
    if not isinstance(value, str):
        raise expected("a text", value, where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misshapen(where, "the text is not valid Unicode") from None
    return str(value)


@dataclass(frozen=True, slots=True)
class TextKind:
    allowed: tuple[str, ...] = ()
    """The values there are; empty: any text."""
    pattern: str = ""
    """What a text looks like, for the schema; whoever takes the text checks it."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return self.read(value, writing.where)

    def read(self, value: Json, where: str) -> str:
        text = checked_text(value, where)
        if self.allowed and text not in self.allowed:
            known = ", ".join(map(repr, self.allowed))
            raise Misshapen(where, f"{text!r} is not one of {known}", nearest(text, self.allowed))
        return text

    def schema(self) -> dict[str, Json]:
        if self.allowed:
            return {"enum": list(self.allowed)}
        return {"type": "string"} | ({"pattern": self.pattern} if self.pattern else {})


@dataclass(frozen=True, slots=True)
class SqlKind:
    """An expression: SQL text, or a Column, which is written as SQL."""

    named: bool = False
    """True if an alias of a Column names the result."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        text = writing.to_sql(value, writing.where, named=self.named)
        return checked_text(text, writing.where)

    def read(self, value: Json, where: str) -> str:
        return checked_text(value, where)

    def schema(self) -> dict[str, Json]:
        return {"type": "string", "description": "a Spark SQL expression"}


@dataclass(frozen=True, slots=True)
class FlagKind:
    def write(self, value: Any, writing: FormWriting) -> Json:
        return self.read(value, writing.where)

    def read(self, value: Json, where: str) -> bool:
        if not isinstance(value, bool):
            raise expected("true or false", value, where)
        return value

    def schema(self) -> dict[str, Json]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class WholeKind:
    least: int = 0

    def write(self, value: Any, writing: FormWriting) -> Json:
        return self.read(value, writing.where)

    def read(self, value: Json, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise expected("a whole number", value, where)
        if not self.least <= value < 2**63:
            raise Misshapen(where, f"{value} is not a whole number of {self.least} or more")
        return int(value)

    def schema(self) -> dict[str, Json]:
        return {"type": "integer", "minimum": self.least}


@dataclass(frozen=True, slots=True)
class NumberKind:
    """Any finite number. A whole one is written as such: 1 and 1.0 have equal bytes."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        number = self.read(value, writing.where)
        return int(number) if number.is_integer() else number

    def read(self, value: Json, where: str) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise expected("a number", value, where)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise Misshapen(where, "the number is not finite")
        return number

    def schema(self) -> dict[str, Json]:
        return {"type": "number"}


@dataclass(frozen=True, slots=True)
class ListKind:
    item: FormKind
    least: int = 0

    def write(self, value: Any, writing: FormWriting) -> Json:
        return [self.item.write(each, writing) for each in value]

    def read(self, value: Json, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise expected("a list", value, where)
        if len(value) < self.least:
            raise Misshapen(where, f"expected at least {self.least} in the list")
        return tuple(self.item.read(each, f"{where}[{n}]") for n, each in enumerate(value))

    def schema(self) -> dict[str, Json]:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(), **least}


@dataclass(frozen=True, slots=True)
class PairsKind:
    """Columns with their expressions. A list, because their order counts."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        written = [
            [checked_text(name, writing.where), SqlKind().write(each, writing)]
            for name, each in value
        ]
        _refuse_repeated([name for name, _ in written], writing.where)
        return written

    def read(self, value: Json, where: str) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, list):
            raise expected("a list of [column, expression]", value, where)
        pairs = [_pair(each, f"{where}[{n}]") for n, each in enumerate(value)]
        _refuse_repeated([name for name, _ in pairs], where)
        return tuple(pairs)

    def schema(self) -> dict[str, Json]:
        both = [{"type": "string"}, SqlKind().schema()]
        pair = {"type": "array", "prefixItems": both, "items": False, "minItems": 2}
        return {"type": "array", "items": pair}


def _pair(value: Json, where: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise expected("[column, expression]", value, where)
    return checked_text(value[0], f"{where}[0]"), checked_text(value[1], f"{where}[1]")


def _refuse_repeated(names: Sequence[str], where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise Misshapen(where, f"the column {name!r} is named twice")


@dataclass(frozen=True, slots=True)
class TextsKind:
    """Names with texts, in no order."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return self.read(dict(value), writing.where)

    def read(self, value: Json, where: str) -> dict[str, str]:
        if not isinstance(value, dict):
            raise expected("names and texts", value, where)
        return {
            checked_text(name, where): checked_text(text, f"{where}.{name}")
            for name, text in value.items()
        }

    def schema(self) -> dict[str, Json]:
        return {"type": "object", "additionalProperties": {"type": "string"}}


# ---- objects with fixed fields ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormShape:
    """The fields of a dataclass in the compiled form. A field with its default is left out, so that
    a field added later does not change the form of what does not use it."""

    made: type
    kinds: Mapping[str, FormKind]
    optional: tuple[str, ...] = ()
    """Fields without a default that are left out if they are None."""

    def write(self, value: Any, writing: FormWriting) -> dict[str, Json]:
        return {
            name: kind.write(given, writing.at(f"{writing.where}, {name}"))
            for name, kind in self.kinds.items()
            if (given := getattr(value, name)) is not None and not self._is_default(name, given)
        }

    def read(self, value: Json, where: str) -> dict[str, Any]:
        """Return the given fields; MISSING ones are left out."""
        return read_fields(value, self.kinds, self.required(), where)

    def required(self) -> list[str]:
        return [
            each.name
            for each in fields(self.made)
            if each.name in self.kinds
            and each.name not in self.optional
            and each.default is MISSING
            and each.default_factory is MISSING
        ]

    def schema(self) -> dict[str, Json]:
        return object_schema(self.kinds, self.required())

    def _is_default(self, name: str, given: object) -> bool:
        [found] = [each for each in fields(self.made) if each.name == name]
        default = found.default
        if found.default_factory is not MISSING:
            default = found.default_factory()
        # Ask for the type first: a Column compared with anything is another Column.
        return isinstance(given, type(default)) and given == default


def read_fields(
    value: Json, kinds: Mapping[str, FormKind], required: Collection[str], where: str
) -> dict[str, Any]:
    """Read an object: unknown and missing fields are mistakes."""
    if not isinstance(value, dict):
        raise expected("an object", value, where)
    for name in value:
        if name not in kinds:
            raise Misshapen(f"{where}.{name}", "unknown key", nearest(name, kinds))
    for name in required:
        if name not in value:
            raise Misshapen(where, f"{name!r} is missing")
    return {name: kinds[name].read(given, f"{where}.{name}") for name, given in value.items()}


def object_schema(kinds: Mapping[str, FormKind], required: Collection[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {name: kind.schema() for name, kind in kinds.items()},
        "required": sorted(required),
        "additionalProperties": False,
    }
