"""The records of an input, found by key or by value with DuckDB, each with file and line."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tallyman.domain.account.redaction import BEGINS
from tallyman.domain.history.asked_row import AskedRow
from tallyman.domain.history.walk import Record
from tallyman.engine.files.duck import BLOB, text
from tallyman.engine.files.listing import InputFile, InputFiles
from tallyman.engine.readback.key_text import PLACE, KeyShape, field, key_piece
from tallyman.engine.readback.session import HIDDEN, DuckSession


@dataclass
class Records(ABC):
    """The records of one input. Hits are a table of `k` (key text), `_tm_file`, `_tm_line`, and the
    content of the record. Keys are a table of `k` and `p`, the place `input@file#number` or NULL.
    """

    duck: DuckSession
    name: str
    files: InputFiles
    key: tuple[str, ...]

    @property
    @abstractmethod
    def types(self) -> Mapping[str, str]:
        """Map the columns that can be asked for to their types in DuckDB."""

    @abstractmethod
    def by_keys(self, keys: str, *, shown: int | None = None) -> str:
        """Find the keys in a table; the content of the record only for the first `shown` keys."""

    @abstractmethod
    def hits(self, chosen: str) -> str:
        """Find the records that `chosen` takes, the rest of a query after FROM."""

    @abstractmethod
    def shown(self, hits: str, limit: int | None) -> list[Record]:
        """Show the records of hits, ordered by key."""

    @abstractmethod
    def column(self, name: str) -> str:
        """Return the typed value of a column, as an expression."""

    @abstractmethod
    def values(self, hits: str, columns: Sequence[str], limit: int | None = None) -> str:
        """Make a table `v0, v1…` of the values of these records, each once."""

    def matching(self, conditions: AskedRow) -> str:
        """Find the records with these values."""
        columns = {name: self.column(name) for name in conditions}
        return self.hits(f"WHERE {condition(self.types, conditions, columns)}")

    def at_place(self, place: str) -> str:
        """Find the record at `@file#number`, with its own key if it has one."""
        return self.hits(f"WHERE {self.place()} = {text(place)}")

    def by_values(self, values: str, columns: Sequence[str]) -> str:
        """Find the records with values of a table `v0, v1…`."""
        same = " AND ".join(f"{self.column(name)} = w.v{n}" for n, name in enumerate(columns))
        return self.hits(f"SEMI JOIN {values} w ON {same}")

    @cached_property
    def shape(self) -> KeyShape:
        return KeyShape(self.key, tuple(self.types[name] for name in self.key))

    def counts(self, hits: str) -> dict[str, int]:
        found = self.duck.rows(
            f"SELECT _tm_file AS file, count(*) AS n FROM {hits} GROUP BY 1 ORDER BY 1"
        )
        return {row["file"]: row["n"] for row in found}

    def place(self) -> str:
        """Write the name of a record without a key, as an expression."""
        return "'@' || _tm_name || '#' || _tm_line"

    def own_key(self) -> str:
        """Write the key of a record, as an expression; its place if it has none."""
        if not self.key:
            return self.place()
        own = self.shape.text_of([self.column(name) for name in self.key])
        return f"coalesce({own}, {self.place()})"

    def same_key(self, keys: str) -> str:
        """Write a condition that a record has the key `w.k` of a table."""
        if not self.key:
            return "false"
        columns = [self.column(name) for name in self.key]
        same = self._same_key(columns)
        return f"({same}) OR ({self._same_hash(columns)})" if self._redacted(keys) else same

    def _redacted(self, keys: str) -> bool:
        """True if some of the keys contain hashes of redacted values."""
        return bool(
            self.duck.value(f"SELECT count(*) FROM {keys} WHERE contains(k, {text(BEGINS)})")
        )

    def _same_hash(self, columns: Sequence[str]) -> str:
        kinds = zip(columns, self.shape.types, strict=True)
        texts = [key_piece(own, kind) for own, kind in kinds]
        if not self.shape.is_json:
            return f"{HIDDEN}({texts[0]}) = w.k"
        written = [field("w.k", name) for name in self.key]
        return " AND ".join(
            f"({other} = {own} OR {other} = {HIDDEN}({own}))"
            for own, other in zip(texts, written, strict=True)
        )

    def _same_key(self, columns: Sequence[str]) -> str:
        if self.shape.plain and self.shape.types == ("VARCHAR",):
            return f"{columns[0]} = w.k"
        pairs = zip(columns, self.shape.pieces("w.k"), strict=True)
        return " AND ".join(f"{own} = {other}" for own, other in pairs)

    def wanted(self, keys: str) -> tuple[str, str]:
        """Split keys into a table `k` to find by key, and a table `k, found_at` to find by
        place.
        """
        name = text(f"{self.name}@")
        by_key = self.duck.keep(f"SELECT DISTINCT k FROM {keys} WHERE p IS NULL")
        by_place = self.duck.keep(
            f"SELECT DISTINCT k, substring(p, length({name})) AS found_at FROM {keys} "
            f"WHERE starts_with(p, {name}) UNION ALL SELECT k, k FROM {by_key} "
            f"WHERE starts_with(k, '@') AND regexp_matches(k, {PLACE})"
        )
        return by_key, by_place

    def keys(self, hits: str, root: str) -> str:
        """Make keys and places of hits, as named by a run that found the files below `root`."""
        known = {self.shown_path(file): file.path for file in self.files.files}
        rows = self.duck.rows(f"SELECT DISTINCT _tm_file AS file FROM {hits}")
        named = self.duck.keep("SELECT NULL::VARCHAR AS file, NULL::VARCHAR AS name WHERE false")
        for file in [row["file"] for row in rows]:
            below = os.path.relpath(known[file], root)
            self.duck.rows(f"INSERT INTO {named} VALUES ({text(file)}, {text(below)})")
        place = f"{text(self.name + '@')} || name || '#' || _tm_line"
        return self.duck.keep(
            f"SELECT k, {place} AS p FROM {hits} h JOIN {named} n ON h._tm_file = n.file"
        )

    def shown_path(self, file: InputFile) -> str:
        """Return the value of `_tm_file` for a file."""
        return file.name

    def last_shown(self, keys: str, shown: int | None) -> str | None:
        """Find the greatest key that is shown."""
        if shown is None:
            return None
        return self.duck.value(
            f"SELECT max(k) FROM (SELECT k FROM {keys} ORDER BY k LIMIT {int(shown)})"
        )


def first(hits: str, limit: int | None) -> str:
    most = "" if limit is None else f" LIMIT {int(limit)}"
    return f"(SELECT * FROM {hits} ORDER BY k, _tm_file, _tm_line{most})"


def condition(types: Mapping[str, str], wanted: AskedRow, columns: Mapping[str, str]) -> str:
    """Write a condition for all `name=value`, compared by the column's type."""
    conditions = []
    for name, value in wanted.items():
        if value is None:
            conditions.append(f"{columns[name]} IS NULL")
        else:
            conditions.append(f"{columns[name]} = {typed(value, types[name])}")
    return " AND ".join(conditions) or "true"


def typed(value: str | None, kind: str) -> str:
    """Write a value of a question as an expression of the column's type, binary from hex; NULL if
    it is not of this type."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    return f"TRY(unhex({text(value)}))" if kind == BLOB else f"TRY_CAST({text(value)} AS {kind})"
