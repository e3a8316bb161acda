"""Records in lines of JSON. Values are the texts in the line; types are declared ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from tallyman.domain.history.walk import Record
from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.files.duck import text
from tallyman.engine.files.listing import InputFile
from tallyman.engine.readback import key_text, text_lines
from tallyman.engine.readback.records import Records, first
from tallyman.errors import DatasetDamaged

BATCH = 100
"""The number of text files in one query."""
# Trimming every line would take longer than everything else: few lines begin with a space.
BLANK = "CASE WHEN line < '!' THEN trim(line, ' ' || chr(9) || chr(13)) = '' ELSE false END"
ONE_JSON_VALUE = r'\s*:\s*("(?:[^"\\]|\\.)*"|[^,}\s]+)'


@dataclass
class TextRecords(Records):
    source: Source
    aside: Path
    declared: Mapping[str, str]
    keep_returns: ClassVar[bool] = False
    _readable: dict[str, str] = field(default_factory=dict)
    _has_bad_bytes: bool = False

    @property
    def types(self) -> Mapping[str, str]:
        return self.declared

    @property
    def records(self) -> str:
        """Write the condition that a line is a record."""
        return f"line IS NOT NULL AND NOT {BLANK}"

    def value(self, name: str) -> str:
        """Return the text of a column in a line, as an expression."""
        parsed = key_text.field("line", name)
        cut = f"regexp_extract(line, {text(re.escape(json.dumps(name)) + ONE_JSON_VALUE)}, 1)"
        # Only for lines that are not JSON: as in the engine, the key is read from the text.
        return f"coalesce({parsed}, CASE WHEN NOT json_valid(line) THEN trim({cut}, '\"') END)"

    def column(self, name: str) -> str:
        kind, value = self.types[name], self.value(name)
        if kind == key_text.BLOB:  # as Spark reads bytes: base64 in JSON, the text itself in CSV
            return (
                f"TRY(from_base64({value}))" if self.source.format == "json" else f"encode({value})"
            )
        return value if kind == "VARCHAR" else f"TRY_CAST({value} AS {kind})"

    def _queries(self) -> Iterator[str]:
        """Query `_tm_file`, `_tm_line`, `_tm_last` and `line`, of some files at a time."""
        for some in self._batches():
            yield f"SELECT *, _tm_line AS _tm_last FROM ({self._lines(some)})"

    def _batches(self) -> Iterator[Sequence[InputFile]]:
        for start in range(0, len(self.files.files), BATCH):
            yield self.files.files[start : start + BATCH]

    def _lines(self, files: Iterable[InputFile]) -> str:
        """Query `_tm_file`, `_tm_line` and `line` of files."""
        return " UNION ALL ".join(text_lines.lines(self._path(f.path), f.name) for f in files)

    def _path(self, path: str) -> str:
        if path not in self._readable:
            self._readable[path] = text_lines.readable(
                path, self.aside, look_at_bytes=self._has_bad_bytes, keep_returns=self.keep_returns
            )
        return self._readable[path]

    def _filled(self, columns: str, rest: str) -> str:
        """Make a table of what one query finds in all files."""
        try:
            return self._fill(columns, rest)
        except DatasetDamaged:
            if self._has_bad_bytes:
                raise
        # Searching for bad bytes beforehand would read everything twice.
        self._has_bad_bytes = True
        self._readable.clear()
        return self._fill(columns, rest)

    def _fill(self, columns: str, rest: str) -> str:
        hits = None
        for batch in self._queries():
            lines = f"(SELECT *, _tm_file AS _tm_name FROM ({batch}) WHERE {self.records})"
            query = f"SELECT {columns} FROM {lines} {rest}"
            if hits is None:
                hits = self.duck.keep(query)
            else:
                self.duck.rows(f"INSERT INTO {hits} {query}")
        assert hits is not None
        return hits

    def by_keys(self, keys: str, *, shown: int | None = None) -> str:
        by_key, by_place = self.wanted(keys)
        last = self.last_shown(keys, shown)
        line = "line" if last is None else f"CASE WHEN k <= {text(last)} THEN line END AS line"
        same = self.same_key(keys)
        columns = f"k, _tm_file, _tm_line, _tm_last, {line}"
        found = [
            self._filled(columns, f"JOIN {table} w ON {condition}")
            for table, condition in ((by_key, same), (by_place, f"w.found_at = {self.place()}"))
            if self.duck.count(table)
        ]
        for more in found[1:]:
            self.duck.rows(f"INSERT INTO {found[0]} SELECT * FROM {more}")
        return found[0] if found else self._filled(f"'' AS {columns}", "WHERE false")

    def hits(self, chosen: str) -> str:
        return self._filled(f"{self.own_key()} AS k, _tm_file, _tm_line, _tm_last, line", chosen)

    def values(self, hits: str, columns: Sequence[str], limit: int | None = None) -> str:
        listed = ", ".join(f"{self.column(name)} AS v{n}" for n, name in enumerate(columns))
        return self.duck.keep(
            f"SELECT DISTINCT {listed} FROM {first(hits, limit)} WHERE line IS NOT NULL"
        )

    def shown(self, hits: str, limit: int | None) -> list[Record]:
        found = self.duck.rows(
            f"SELECT k, _tm_file, _tm_line, _tm_last, line FROM {first(hits, limit)}"
            " ORDER BY k, _tm_file, _tm_line"
        )
        return [
            Record(
                key=row["k"],
                file=row["_tm_file"],
                line=row["_tm_line"],
                last_line=None if row["_tm_last"] == row["_tm_line"] else row["_tm_last"],
                values=self._parsed(row["line"]),
            )
            for row in found
        ]

    def _parsed(self, line: str) -> dict[str, Any]:
        try:
            found = json.loads(line, parse_float=Decimal)
        except ValueError:
            return {"line": line}
        return found if isinstance(found, dict) else {"line": line}
