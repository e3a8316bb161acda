"""Records of CSV files as the run read them: in the source's dialect, of one or more lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from tallyman.engine.files.compressed import text_of
from tallyman.engine.files.duck import text
from tallyman.engine.files.listing import InputFile
from tallyman.engine.readback import text_lines
from tallyman.engine.readback.text_records import TextRecords
from tallyman.engine.source.csv_dialect import FIRST, CsvDialect, Sql

ONE_SEPARATOR = "\x1f"
"""The stand-in for a separator of several characters, which DuckDB's expressions cannot exclude."""


@dataclass
class CsvRecords(TextRecords):
    keep_returns: ClassVar[bool] = True

    @cached_property
    def _declared(self) -> CsvDialect:
        return CsvDialect.of(self.source.options)

    @cached_property
    def dialect(self) -> CsvDialect:
        """The dialect of `line` in queries."""
        if len(self._declared.separator) == 1:
            return self._declared
        return replace(self._declared, separator=ONE_SEPARATOR)

    @property
    def _has_header(self) -> bool:
        return self.source.options.get("header", "true") == "true"

    @cached_property
    def _header(self) -> list[str]:
        names = list(self.types)
        if not self._has_header:
            return names
        with text_of(self.files, self.files.files[0]) as file:
            found = self._declared.cells(file.readline().removesuffix("\n").removesuffix("\r"))
        return [name.strip() for name in found] if found else names

    @property
    def records(self) -> str:
        header = " AND _tm_line > 1" if self._has_header else ""
        return f"{super().records}{header}"

    def _queries(self) -> Iterator[str]:
        bare = "CASE WHEN ends_with(line, chr(13)) THEN line[:-2] ELSE line END"
        for some in self._batches():
            opening = [file for file in some if file.name in self._opening]
            single = [file for file in some if file.name not in self._opening]
            found = []
            if opening:
                found.append(self._joined(self._lines(opening)))
            if single:
                found.append(f"SELECT *, _tm_line AS _tm_last FROM ({self._lines(single)})")
            yield f"SELECT * REPLACE ({bare} AS line) FROM ({' UNION ALL '.join(found)})"

    def _lines(self, files: Iterable[InputFile]) -> str:
        found = " UNION ALL ".join(map(self._lines_of, files))
        if self.dialect != self._declared:
            one = f"replace(line, {text(self._declared.separator)}, {text(ONE_SEPARATOR)})"
            found = f"SELECT * REPLACE ({one} AS line) FROM ({found})"
        return found

    def _lines_of(self, file: InputFile) -> str:
        path = self._path(file.path)
        found = text_lines.lines(path, file.name)
        if path == file.path:
            return found
        back = f"replace(line, {text(text_lines.RETURN)}, chr(13))"
        return f"SELECT * REPLACE ({back} AS line) FROM ({found})"

    @cached_property
    def _opening(self) -> frozenset[str]:
        """The names of files in which some line leaves a quoted field open."""
        quote = self.dialect.quote
        if not quote:
            return frozenset()
        opens = f"contains(line, {text(quote)}) AND {_matches(self.dialect.opens)}"
        found: set[str] = set()
        for some in self._batches():
            files = f"SELECT DISTINCT _tm_file FROM ({self._lines(some)}) WHERE {opens}"
            found |= {row["_tm_file"] for row in self.duck.rows(files)}
        return frozenset(found)

    def _joined(self, lines: str) -> str:
        sql = Sql("_tm_file", "_tm_line", "line", text, _matches, _last)
        found = lines
        for step in self.dialect.grouping(sql):
            listed = ", ".join(f"{value} AS {name}" for name, value in step.items())
            found = f"SELECT *, {listed} FROM ({found})"
        all_lines = "list({'n': _tm_line, 't': coalesce(line, '')} ORDER BY _tm_line)"
        separator = text(self.source.options.get("lineSep", "\n"))
        found = f"SELECT _tm_file, {FIRST}, {all_lines} AS a FROM ({found}) GROUP BY ALL"
        joined = f"array_to_string(list_transform(a, lambda x: x.t), {separator})"
        found = f"SELECT *, {joined} AS line FROM ({found})"
        one = f"[{{'n': {FIRST}, 't': line, 'l': a[-1].n}}]"
        apart = "list_transform(a, lambda x: {'n': x.n, 't': x.t, 'l': x.n})"
        parts = f"CASE WHEN {_matches(self.dialect.whole)} THEN {one} ELSE {apart} END"
        found = f"SELECT _tm_file, unnest({parts}) AS p FROM ({found})"
        return f"SELECT _tm_file, p.n AS _tm_line, p.t AS line, p.l AS _tm_last FROM ({found})"

    def value(self, name: str) -> str:
        place = self._header.index(name) + 1
        separator, quote = self.dialect.separator, self.dialect.quote
        value = f"string_split(line, {text(separator)})[{place}]"
        if quote:
            fields = f"line || {text(separator)}, {_pattern(self.dialect.each)}, 1"
            cut = f"regexp_extract_all({fields})[{place}]"
            inside = f"WHEN starts_with({cut}, {text(quote)}) THEN {self._inside(cut)}"
            read = f"WHEN {_matches(self.dialect.bare_record)} THEN CASE {inside} ELSE {cut} END"
            plain = f"NOT contains(line, {text(quote)}) AND NOT contains(line, chr(13))"
            value = f"CASE WHEN {plain} THEN {value} {read} END"
        if self.dialect != self._declared:
            value = f"replace({value}, {text(ONE_SEPARATOR)}, {text(self._declared.separator)})"
        return f"nullif({value}, {text(self.source.options.get('nullValue', ''))})"

    def _inside(self, cell: str) -> str:
        quote, escape = self.dialect.quote, self.dialect.escape
        inside = f"substring({cell}, 2, length({cell}) - 2)"
        inside = f"replace({inside}, {text(escape + quote)}, {text(quote)})"
        if escape == quote:
            return inside
        return f"replace({inside}, {text(escape * 2)}, {text(escape)})"

    def _parsed(self, line: str) -> dict[str, Any]:
        if self.dialect != self._declared:
            line = line.replace(ONE_SEPARATOR, self._declared.separator)
        cells = self._declared.cells(line)
        if cells is None or len(cells) != len(self._header):
            return {"line": line}
        return dict(zip(self._header, cells, strict=True))


def _pattern(pattern: str) -> str:
    """Write a regular expression for DuckDB, which never backtracks."""
    return text(pattern.replace("*+", "*"))


def _matches(pattern: str) -> str:
    return f"regexp_matches(line, {_pattern(pattern)})"


def _last(value: str, window: str) -> str:
    return f"last_value({value} IGNORE NULLS) OVER {window}"
