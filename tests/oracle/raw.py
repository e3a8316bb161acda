"""Raw lines as records: typed by hand, with what is wrong with each. Knows neither Tallyman nor
Spark; a record is named by its file and line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

SCHEMAS: dict[str, dict[str, str]] = {
    "parcels": {
        "parcel_id": "string",
        "tag": "string",
        "depot": "string",
        "service": "string",
        "weight": "decimal(10,3)",
        "day": "date",
        "declared": "int",
        "codes": "array<string>",
    },
    "scans": {
        "parcel_id": "string",
        "seq": "int",
        "tag": "string",
        "depot": "string",
        "kind": "string",
        "minute": "int",
    },
    "movements": {
        "ref": "string",
        "line": "int",
        "tag": "string",
        "account": "string",
        "region": "string",
        "quantity": "int",
        "value": "decimal(12,2)",
        "note": "string",
    },
    "adjustments": {
        "id": "string",
        "tag": "string",
        "region": "string",
        "value": "decimal(12,2)",
    },
    "notices": {"notice_id": "string", "tag": "string", "subject": "string", "level": "int"},
    "rounds": {
        "round_id": "string",
        "tag": "string",
        "day": "date",
        "depot": "string",
        "stops": "array<int>",
    },
    "depots": {"code": "string", "city": "string", "zone": "string"},
    "accounts": {"code": "string", "factor": "decimal(6,2)"},
}
REQUIRED = {"parcels": ("weight",), "scans": ("minute",), "returns": ("weight",)}
KEYS = {
    "parcels": ("parcel_id",),
    "scans": ("parcel_id", "seq"),
    "returns": ("depot", "number"),
    "movements": ("ref", "line"),
    "adjustments": ("id",),
    "notices": ("notice_id",),
    "rounds": ("round_id",),
    "depots": ("code",),
    "accounts": ("code",),
    "tariffs": ("zone", "offer"),
}


@dataclass(frozen=True)
class Place:
    """Where a record stands, counted from 1; of a dataset, the row with this tag."""

    input: str
    file: str
    line: int


@dataclass(frozen=True)
class Fault:
    kind: str
    field: str
    expected: str
    actual: str


@dataclass(frozen=True)
class Record:
    """`key` is its business key as text, or `@file#line`."""

    place: Place
    key: str
    values: Mapping[str, Any]
    faults: tuple[Fault, ...] = ()
    unreadable: frozenset[str] = frozenset()
    has_key: bool = True


@dataclass(frozen=True)
class Table:
    name: str
    records: tuple[Record, ...]
    blank_lines: int = 0
    by_place: dict[Place, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_place.update({record.place: record for record in self.records})


def table(home: Path, name: str, folder: str) -> Table:
    """All files of a source below `folder`, or the one file that it is."""
    given = home / folder
    files = sorted(given.rglob("*.*")) if given.is_dir() else [given]
    root = given if given.is_dir() else given.parent
    found: list[Record] = []
    blank = 0
    for file in files:
        if file.suffix == ".parquet":
            found += _rows(home, root, name, file)
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1], 1):
            if not line.strip():
                blank += 1
            elif file.suffix == ".jsonl":
                found.append(_json(_Where(home, root, name, file, number), line))
            elif number > 1:
                found.append(_csv(_Where(home, root, name, file, number), line))
    return Table(name, tuple(found), blank)


@dataclass(frozen=True)
class _Where:
    home: Path
    root: Path
    name: str
    file: Path
    line: int

    @property
    def place(self) -> Place:
        return Place(self.name, str(self.file.relative_to(self.home)), self.line)

    @property
    def text(self) -> str:
        return f"@{self.file.relative_to(self.root)}#{self.line}"

    def record(self, values: Mapping[str, Any], faults: list[Fault], seen: str | None) -> Record:
        own = key_text(self.name, values) or seen
        lost = frozenset(f.field for f in faults if f.kind == "type_cast_error")
        if any(f.kind == "parse_error" for f in faults):
            lost = frozenset(SCHEMAS[self.name])
        return Record(self.place, own or self.text, values, tuple(faults), lost, own is not None)


def key_text(name: str, values: Mapping[str, Any]) -> str | None:
    parts = {column: values.get(column) for column in KEYS[name]}
    if None in parts.values():
        return None
    if len(parts) == 1:
        return str(next(iter(parts.values())))
    return json.dumps(parts, separators=(",", ":"))


# ---- one line -----------------------------------------------------------------------------


def _json(where: _Where, line: str) -> Record:
    schema = SCHEMAS[where.name]
    try:
        given = json.loads(line, parse_float=Decimal)
    except ValueError:
        fault = Fault("parse_error", "line", "one JSON object on the line", line)
        [key] = KEYS[where.name]
        seen = re.search(rf'"{key}": "([^"]*)"', line)
        return where.record(dict.fromkeys(schema), [fault], seen[1] if seen else None)
    return _typed(where, given, lambda value: value if isinstance(value, str) else str(value))


def _csv(where: _Where, line: str) -> Record:
    schema = SCHEMAS[where.name]
    [cells] = csv.reader([line])
    given = dict(zip(schema, (cell or None for cell in cells), strict=False))
    found = _typed(where, given, str)
    if len(cells) == len(schema):
        return found
    fault = Fault("parse_error", "line", f"{len(schema)} fields", line)
    return where.record(found.values, [fault], None)


def _typed(where: _Where, given: Mapping[str, Any], shown: Callable[[Any], str]) -> Record:
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, kind in SCHEMAS[where.name].items():
        raw = given.get(name)
        try:
            values[name] = None if raw is None else _read(kind, raw)
        except (ValueError, TypeError, InvalidOperation):
            values[name] = None
            faults.append(Fault("type_cast_error", name, kind, shown(raw)))
            continue
        if values[name] is None and name in REQUIRED.get(where.name, ()):
            faults.append(Fault("null_error", name, "not null", "NULL"))
    return where.record(values, faults, None)


def _read(kind: str, raw: Any) -> Any:
    if kind.startswith("decimal"):
        scale = int(kind.rstrip(")").partition(",")[2])
        return Decimal(raw).quantize(Decimal(1).scaleb(-scale))
    return READ[kind](raw)


def _exactly(*kinds: type) -> Callable[[Any], Any]:
    def read(raw: Any) -> Any:
        if not isinstance(raw, kinds) or isinstance(raw, bool):
            raise TypeError
        return raw

    return read


def _whole(raw: Any) -> int:
    if isinstance(raw, Decimal):
        raise TypeError
    return int(raw)


def _list(raw: Any) -> list[Any]:
    return list(_exactly(list)(raw))


READ: dict[str, Callable[[Any], Any]] = {
    "string": _exactly(str),
    "int": _whole,
    "date": lambda raw: date.fromisoformat(_exactly(str)(raw)),
    "array<string>": _list,
    "array<int>": _list,
}


def _rows(home: Path, root: Path, name: str, file: Path) -> Iterator[Record]:
    for number, row in enumerate(pq.read_table(file).to_pylist(), 1):
        absent = [n for n in REQUIRED.get(name, ()) if row[n] is None]
        faults = [Fault("null_error", n, "not null", "NULL") for n in absent]
        yield _Where(home, root, name, file, number).record(row, faults, None)
