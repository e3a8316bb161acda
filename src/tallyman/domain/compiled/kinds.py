"""Kinds of values of a declaration: each is read, written and described in one place.

Reading takes what people write in YAML, such as one name in place of a list. Writing has one
spelling for a value, the one that the JSON Schema describes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Protocol

from tallyman.domain.compiled.piece import Json, Notes, Piece
from tallyman.errors import TallymanError


class Misshapen(Exception):
    """A part of a plan or a declaration that cannot be written."""

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
class PlanWriting:
    """The state of writing one declaration: its place for messages, how a Column becomes SQL."""

    where: str
    to_sql: ToSql
    written: Written = field(default_factory=Written)

    def at(self, name: str) -> PlanWriting:
        return replace(self, where=f"{self.where}, {name}")


class AnyKind(Protocol):
    def read(self, piece: Piece) -> Any:
        """Return the value; None, and a mistake of the piece, if it is of another kind."""
        ...

    def write(self, value: Any, writing: PlanWriting) -> Json: ...

    def schema(self) -> dict[str, Json]: ...


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts: how it is read, and its JSON Schema."""

    reads: Callable[[Piece], Any]
    described: Mapping[str, Json]

    def read(self, piece: Piece) -> Any:
        return self.reads(piece)

    def write(self, value: Any, writing: PlanWriting) -> Json:
        """Return the value, if it can be read."""
        notes = Notes()
        read = self.reads(Piece(writing.where, value, notes))
        for problem in notes.problems:
            raise Misshapen(problem.where, problem.message, problem.nearest)
        return read

    def schema(self) -> dict[str, Json]:
        return dict(self.described)


def whole(least: int = 0) -> Scalar:
    return Scalar(lambda piece: piece.whole(least), {"type": "integer", "minimum": least})


def text_like(pattern: str) -> Scalar:
    """A text; whoever takes it checks it."""
    return Scalar(Piece.text, {"type": "string", "pattern": pattern})


def one_of(*words: str) -> Scalar:
    """One of a few words; whoever takes it checks it, in its own words."""
    return Scalar(Piece.text, {"enum": list(words)})


@dataclass(frozen=True, slots=True)
class _Sql(Scalar):
    """An expression: SQL text, or a Column, which is written as SQL."""

    named: bool = False
    """True if an alias of a Column names the result."""

    def write(self, value: Any, writing: PlanWriting) -> Json:
        text = writing.to_sql(value, writing.where, named=self.named)
        return Scalar.write(self, text, writing)


_SQL = {"type": "string", "description": "a Spark SQL expression"}
TEXT = Scalar(Piece.text, {"type": "string"})
FLAG = Scalar(Piece.truth, {"type": "boolean"})
NUMBER = Scalar(Piece.number, {"type": "number"})
SQL = _Sql(Piece.expression, _SQL)
NAMED_SQL = _Sql(Piece.expression, _SQL, named=True)
CONDITION = _Sql(Piece.condition, _SQL)


@dataclass(frozen=True, slots=True)
class Listed:
    """One value, or a list of them."""

    item: Scalar
    least: int = 0

    def read(self, piece: Piece) -> list[Any]:
        if isinstance(piece.value, list) and len(piece.value) < self.least:
            piece.fail("name at least one")
        items = [piece] if isinstance(piece.value, str) else piece.items()
        return [self.item.read(item) for item in items]

    def write(self, value: Any, writing: PlanWriting) -> Json:
        listed = sorted(value) if isinstance(value, frozenset) else value
        return [self.item.write(each, writing) for each in listed]

    def schema(self) -> dict[str, Json]:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(), **least}


NAMES = Listed(TEXT)


@dataclass(frozen=True, slots=True)
class Ordered:
    """Names with values whose order counts: a mapping, or a list of [name, value]. The list is
    written: tools put the keys of a mapping in another order."""

    kind: AnyKind
    what: str = "columns and their expressions"

    def read(self, piece: Piece) -> dict[str, Any]:
        pieces = piece.pairs(self.what)
        for name, given in pieces.items():
            if given.is_empty and getattr(piece.value, "flow", False):
                hint = "within {…} a comma ends a value: quote an expression that contains one"
                piece.fail(f"{name!r} has no expression; {hint}")
                return {}
        return {name: self.kind.read(given) for name, given in pieces.items()}

    def write(self, value: Any, writing: PlanWriting) -> Json:
        names = [name for name, _ in value]
        for name in names:
            if names.count(name) > 1:
                raise Misshapen(writing.where, f"{name!r} is named twice")
        return [[TEXT.write(name, writing), self.kind.write(each, writing)] for name, each in value]

    def schema(self) -> dict[str, Json]:
        both = [{"type": "string"}, self.kind.schema()]
        pair = {"type": "array", "prefixItems": both, "items": False, "minItems": 2}
        return {"type": "array", "items": pair}


@dataclass(frozen=True, slots=True)
class ByName:
    """Names with values, in no order."""

    kind: AnyKind

    def read(self, piece: Piece) -> dict[str, Any]:
        return {name: self.kind.read(given) for name, given in piece.entries().items()}

    def write(self, value: Any, writing: PlanWriting) -> Json:
        # The requirements of a table are listed: each knows its column.
        named = value if isinstance(value, Mapping) else {each.column: each for each in value}
        return {
            TEXT.write(name, writing): self.kind.write(each, writing)
            for name, each in named.items()
        }

    def schema(self) -> dict[str, Json]:
        return {"type": "object", "additionalProperties": self.kind.schema()}


# ---- names and values that one function takes ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """One value of a Grammar: its kind, whether it is needed, the parameter it is passed to and the
    field it is written from if they have other names."""

    kind: AnyKind
    required: bool = False
    to: str = ""
    of: str | None = ""
    """None: another spelling of something else, which is never written."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Names and values, read through the function that checks them. A value that is the default of
    its field is left out when written, so that a field added later does not change the form of what
    does not use it."""

    made: type
    keys: Mapping[str, Key]
    make: Callable[..., Any] = dict
    short: str | None = None
    """The key that a value without keys stands for."""

    def read(self, piece: Piece) -> Any:
        values = self.values(piece, self.pieces(piece))
        return built(piece, self.make, values, self.make.__name__.lower())

    def pieces(self, piece: Piece) -> dict[str, Piece]:
        """Return the parts by key, also if it is written without keys."""
        if self.short is None or piece.is_empty:
            return piece.entries(self.keys)
        is_mapping = isinstance(piece.value, dict)
        if is_mapping and isinstance(self.keys[self.short].kind, Ordered):
            # Without keys it has names and expressions, and no expression is a list or a mapping.
            is_mapping = any(isinstance(each, (dict, list)) for each in piece.value.values())
        return piece.entries(self.keys) if is_mapping else {self.short: piece}

    def values(self, piece: Piece, pieces: Mapping[str, Piece]) -> dict[str, Any] | None:
        """Read the values by parameter; an omitted one keeps the parameter's default."""
        before = piece.mistakes
        for name, key in self.keys.items():
            if key.required and name not in pieces:
                piece.fail(f"{name!r} is missing")
        keys = self.keys
        read = {
            keys[name].to or name: keys[name].kind.read(given) for name, given in pieces.items()
        }
        return None if piece.mistakes > before else read

    def write(self, value: Any, writing: PlanWriting) -> dict[str, Json]:
        written: dict[str, Json] = {}
        for name, key in self.keys.items():
            field = name if key.of == "" else key.of
            given = None if field is None else getattr(value, field, None)
            if field and given is not None and not _is_default(value, field, given):
                written[name] = key.kind.write(given, writing.at(name))
        return written

    def schema(self) -> dict[str, Json]:
        return object_schema(
            {name: key.kind.schema() for name, key in self.keys.items()},
            [name for name, key in self.keys.items() if key.required],
        )


@dataclass(frozen=True, slots=True)
class TextOr:
    """A text, or names and values."""

    text: Scalar
    record: Grammar

    def read(self, piece: Piece) -> Any:
        return (self.record if isinstance(piece.value, dict) else self.text).read(piece)

    def write(self, value: Any, writing: PlanWriting) -> Json:
        return (self.text if isinstance(value, str) else self.record).write(value, writing)

    def schema(self) -> dict[str, Json]:
        return {"oneOf": [self.text.schema(), self.record.schema()]}


def built(
    piece: Piece, make: Callable[..., Any], values: Mapping[str, Any] | None, called: str = ""
) -> Any:
    """Call a function with values; its error becomes a mistake of this part."""
    if values is None:
        return None
    try:
        return make(**values)
    except TallymanError as error:
        piece.fail(str(error).removeprefix(f"{called}: "))
        return None


def object_schema(properties: Mapping[str, Json], required: list[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def _is_default(value: object, name: str, given: object) -> bool:
    for each in fields(value):  # type: ignore[arg-type]
        if each.name == name:
            made = each.default_factory
            default = each.default if made is MISSING else made()
            # Ask for the type first: a Column compared with anything is another Column.
            return isinstance(given, type(default)) and given == default
    return False
