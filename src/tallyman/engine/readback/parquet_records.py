"""Records in Parquet: of a source, or rows of a dataset's version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tallyman.domain.history.asked_row import AskedRow
from tallyman.domain.history.walk import Record
from tallyman.engine.expressions.column_names import is_ours
from tallyman.engine.files.duck import quoted, text
from tallyman.engine.files.listing import InputFile
from tallyman.engine.readback.records import Records, condition, equal, first


@dataclass
class ParquetRecords(Records):
    hive: bool = False
    """True if `a=1/` in a path is a column."""

    @cached_property
    def _source(self) -> str:
        found = self.duck.placed([file.path for file in self.files.files], hive=self.hive)
        names = ", ".join(f"{text(f.path)}: {text(f.name)}" for f in self.files.files)
        return f"(SELECT *, MAP {{{names}}}[_tm_file] AS _tm_name FROM {found})"

    @cached_property
    def types(self) -> Mapping[str, str]:
        found = self.duck.columns(f"SELECT * FROM {self._source}")
        return {name: kind for name, kind in found.items() if not is_ours(name)}

    def _key(self) -> str:
        """Write the key of a record of `_source r`, as an expression."""
        place = self.place()
        if not self.key:
            return place
        return f"coalesce({self.shape.text_of([self.column(n) for n in self.key])}, {place})"

    def by_keys(self, keys: str, *, shown: int | None = None) -> str:
        by_key, by_place = self.wanted(keys)
        same = self.same_key([self.column(name) for name in self.key], keys)
        found = " UNION ALL ".join(
            f"SELECT w.k, r._tm_file, r._tm_line FROM {self._source} r JOIN {table} w "
            f"ON {condition}"
            for table, condition in ((by_key, same), (by_place, f"w.found_at = {self.place()}"))
        )
        return self.duck.keep(found)

    def shown_path(self, file: InputFile) -> str:
        return file.path

    def column(self, name: str) -> str:
        return f"r.{quoted(name)}"

    def counts(self, hits: str) -> dict[str, int]:
        names = {file.path: file.name for file in self.files.files}
        return {names[path]: count for path, count in super().counts(hits).items()}

    def values(self, hits: str, columns: Sequence[str], limit: int | None = None) -> str:
        few = first(hits, limit)
        listed = ", ".join(f"r.{quoted(name)} AS v{n}" for n, name in enumerate(columns))
        return self.duck.keep(
            f"SELECT DISTINCT {listed} FROM {self._source} r "
            f"JOIN {few} h USING (_tm_file, _tm_line)"
        )

    def at_place(self, place: str) -> str:
        return self.duck.keep(
            f"SELECT {self._key()} AS k, _tm_file, _tm_line FROM {self._source} r "
            f"WHERE {self.place()} = {text(place)}"
        )

    def at(self, places: str) -> str:
        """Find rows by file and line."""
        return self.duck.keep(
            f"SELECT {self._key()} AS k, _tm_file, _tm_line FROM {self._source} r "
            f"SEMI JOIN {places} w USING (_tm_file, _tm_line)"
        )

    def by_values(self, values: str, columns: Sequence[str]) -> str:
        same = equal([self.column(name) for name in columns])
        return self.duck.keep(
            f"SELECT {self._key()} AS k, _tm_file, _tm_line FROM {self._source} r "
            f"SEMI JOIN {values} w ON {same}"
        )

    def matching(self, conditions: AskedRow) -> str:
        where = condition(self.types, conditions, {n: self.column(n) for n in conditions})
        return self.duck.keep(
            f"SELECT {self._key()} AS k, _tm_file, _tm_line FROM {self._source} r WHERE {where}"
        )

    def shown(self, hits: str, limit: int | None) -> list[Record]:
        few = first(hits, limit)
        named = ", ".join(f"r.{quoted(name)}" for name in self.types)
        found = self.duck.rows(
            f"SELECT h.k AS _tm_key, _tm_name, h._tm_line, {named} "
            f"FROM {self._source} r JOIN {few} h "
            "USING (_tm_file, _tm_line) ORDER BY h.k, _tm_name, h._tm_line"
        )
        return [
            Record(
                key=str(row.pop("_tm_key")),
                file=row.pop("_tm_name"),
                line=row.pop("_tm_line"),
                values=row,
            )
            for row in found
        ]
