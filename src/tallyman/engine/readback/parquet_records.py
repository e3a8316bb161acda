"""Records in Parquet: of a source, or rows of a dataset's version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tallyman.domain.history.walk import Record
from tallyman.engine.expressions.column_names import is_ours
from tallyman.engine.files.duck import quoted, text
from tallyman.engine.files.listing import InputFile
from tallyman.engine.readback.records import Records, first
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.engine.files import parquet_set
else:
    parquet_set = OnDemand("tallyman.engine.files.parquet_set")

NANOSECONDS = re.compile("TIMESTAMP(TZ)?_NS")
ZONED = "TIMESTAMP WITH TIME ZONE"


@dataclass
class ParquetRecords(Records):
    hive: bool = False
    """True if `a=1/` in a path is a column."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The types in DuckDB of declared columns, which a file may have in a narrower type."""

    @cached_property
    def _source(self) -> str:
        whole = self._read(self.files.files)
        found = self.duck.columns(f"SELECT * FROM {whole}")
        if not any(map(NANOSECONDS.search, found.values())):
            return f"(SELECT *{self._typed(found)} FROM {whole})"
        # Times in nanoseconds end in 2262: other files must not be read in their type.
        lots = parquet_set.ParquetSet(self.files).groups(found)
        queries = []
        for lot in lots:
            read = self._read(lot.files)
            own = self.duck.columns(f"SELECT * FROM {read}")
            queries.append(f"SELECT *{self._typed(own)} FROM {read}")
        return f"({' UNION ALL BY NAME '.join(queries)})"

    def _read(self, files: Sequence[InputFile]) -> str:
        found = self.duck.placed([file.path for file in files], hive=self.hive)
        names = ", ".join(f"{text(f.path)}: {text(f.name)}" for f in files)
        return f"(SELECT *, MAP {{{names}}}[_tm_file] AS _tm_name FROM {found})"

    def _typed(self, found: Mapping[str, str]) -> str:
        """Write the columns with another type than a run reads, converted to it."""
        wanted = {name: self._wanted(name, kind) for name, kind in found.items()}
        other = {name: sql for name, sql in wanted.items() if sql != quoted(name)}
        shown = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in other.items())
        return f" REPLACE ({shown})" if other else ""

    def _wanted(self, name: str, kind: str) -> str:
        declared = self.declared.get(name)
        fine = NANOSECONDS.search(kind) is not None
        if fine and declared == "BIGINT":
            return f"epoch_ns({quoted(name)})"
        if fine and declared is None:
            plain = kind.replace("TIMESTAMPTZ_NS", ZONED).replace("TIMESTAMP_NS", "TIMESTAMP")
            return f"CAST({quoted(name)} AS {plain})"
        if declared in (None, "VARCHAR", kind):  # nested types are declared as text here
            return quoted(name)
        return f"CAST({quoted(name)} AS {declared})"

    @cached_property
    def types(self) -> Mapping[str, str]:
        found = self.duck.columns(f"SELECT * FROM {self._source}")
        return {name: kind for name, kind in found.items() if not is_ours(name)}

    def by_keys(self, keys: str, *, shown: int | None = None) -> str:
        by_key, by_place = self.wanted(keys)
        same = self.same_key(keys)
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

    def hits(self, chosen: str) -> str:
        found = f"SELECT {self.own_key()} AS k, _tm_file, _tm_line FROM {self._source} r"
        return self.duck.keep(f"{found} {chosen}")

    def at(self, places: str) -> str:
        """Find rows by file and line."""
        return self.hits(f"SEMI JOIN {places} w USING (_tm_file, _tm_line)")

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
