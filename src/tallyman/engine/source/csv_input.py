"""CSV inputs: records of one or more lines, in the dialect of the source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField

from tallyman.engine.expressions.column_names import literal
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source import lines
from tallyman.engine.source.csv_dialect import FIRST, CsvDialect, Sql
from tallyman.engine.source.lines_input import BAD_UTF8, LinesInput

BREAK = "\n"
"""Lines end here; the `\r` before it belongs to the line, because a quoted field may contain it."""


@dataclass(frozen=True)
class CsvInput(LinesInput):
    """CSV with the text, the file and the first line of every record."""

    @cached_property
    def dialect(self) -> CsvDialect:
        return CsvDialect.of(self.options)

    @property
    def _reading(self) -> str:
        return f"{super()._reading} {self.dialect}"

    @property
    def _break(self) -> str:
        return self.options.get("lineSep", BREAK)

    @cached_property
    def _splits(self) -> lines.Splits:
        quote = f"contains({lines.TEXT}, {literal(self.dialect.quote)})"
        opens = f"{quote} AND {_matches(self.dialect.opens)}"
        mark = lines.LineMark(opens, self.dialect.leaves_open) if self.dialect.quote else None
        return lines.splits(self.spark, self.files, self._break, mark)

    # ---- the header -------------------------------------------------------------------------

    @cached_property
    def headers(self) -> list[list[str] | None]:
        """List the header of every file; None if its first line is not a record."""
        if self.options.get("header", "true") != "true":
            return []
        return [self._header_of(line) for line in self._splits.first_lines.values()]

    def _header_of(self, line: str) -> list[str] | None:
        found = self.dialect.cells(line.removeprefix("\ufeff").removesuffix("\r"))
        return None if found is None else [name.strip() for name in found]

    @property
    def without_header(self) -> str:
        if self.options.get("header", "true") != "true":
            return ""
        seen = self._splits.first_lines
        known = {*seen, *map(lines.local_path, seen)}
        return ", ".join(file.name for file in self.files.files if file.path not in known)

    @property
    def first_line(self) -> str:
        return next(iter(self._splits.first_lines.values()), "")

    @property
    def header(self) -> list[str]:
        return (self.headers[0] or []) if self.headers else []

    @cached_property
    def positions(self) -> list[StructField]:
        """List the fields in the order of the header, or as declared."""
        if not self.header:
            return list(self.schema.fields)
        declared = {field.name: field for field in self.schema.fields}
        return [declared.get(n, StructField(n, StringType())) for n in self.header]

    def fields(self, wanted: Collection[str]) -> list[StructField]:
        return [
            f if f.name in wanted else StructField(f.name, StringType()) for f in self.positions
        ]

    @property
    def one_record(self) -> str:
        return f"{len(self.positions)} fields"

    # ---- records ----------------------------------------------------------------------------

    def parse(self, text: str, fields: Sequence[StructField]) -> str:
        parsed = self._parser("from_csv", text, fields, ("header", "lineSep", "multiLine"))
        if not self.dialect.quote:
            return parsed
        # The parser accepts half a field: what is not a record by the dialect is not parsed.
        quote, record = literal(self.dialect.quote), literal(self.dialect.bare_record)
        plain = f"NOT (contains({text}, {quote}) OR contains({text}, '\\r'))"
        return f"CASE WHEN {plain} OR regexp_like({text}, {record}) THEN {parsed} END"

    @property
    def parser_options(self) -> dict[str, str]:
        return {**self.options, "quote": self.dialect.quote, "escape": self.dialect.escape}

    @property
    def _unreadable(self) -> str:
        return BAD_UTF8

    def line_key(self, broken: str) -> str:
        """Write the key as read: fields of CSV are typed one by one, and none changes another."""
        return self.own_key()

    def _lines(self) -> DataFrame:
        """Read every record that is not blank."""
        found = self._records()
        found = found.where(f"NOT ({lines.is_blank(lines.TEXT)})")
        return found.where(f"{lines.NUMBER} > 1") if self.header else found

    @cached_property
    def _kinds(self) -> list[tuple[InputFiles, lines.Splits, bool]]:
        """List the files by whether a line leaves a quoted field open. Each kind is counted by
        itself, because Spark gives positions to the lines that are read together.
        """
        whole = self._splits
        marked = [file for file in self.files.files if file.path in whole.marked]
        if len(marked) in (0, len(self.files.files)):
            return [(self.files, whole, bool(marked))]
        others = [file for file in self.files.files if file.path not in whole.marked]
        kinds = []
        for listed, mark in ((others, False), (marked, True)):
            files = replace(self.files, files=tuple(listed))
            kinds.append((files, lines.splits(self.spark, files, self._break), mark))
        return kinds

    def _records(self) -> DataFrame:
        """Read every record, blank lines included, with its first line as number."""
        parts = []
        for files, known, marked in self._kinds:
            read = lines.numbered(self.spark, files, known, self._break)
            parts.append(self._joined(read) if marked else read)
        found = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
        others = (lines.FILE, lines.NUMBER)
        for text in (_WITHOUT_MARK, _WITHOUT_RETURN):
            found = found.selectExpr(f"{text} AS {lines.TEXT}", *others)
        return found

    def _joined(self, found: DataFrame) -> DataFrame:
        """Join the lines of each record. What looks like one and is none stays apart as lines."""
        sql = Sql(lines.FILE, lines.NUMBER, lines.TEXT, literal, _matches, _last)
        for step in self.dialect.grouping(sql):
            found = found.selectExpr("*", *(f"{text} AS {name}" for name, text in step.items()))
        line = f"struct({lines.NUMBER}, {lines.TEXT})"
        grouped = found.groupBy(lines.FILE, FIRST).agg(
            F.expr(f"sort_array(collect_list({line})) AS _tm_all")
        )
        text = f"array_join(transform(_tm_all, l -> l.{lines.TEXT}), {literal(self._break)})"
        grouped = grouped.selectExpr(lines.FILE, FIRST, "_tm_all", f"{text} AS {lines.TEXT}")
        record = f"struct({FIRST} AS {lines.NUMBER}, {lines.TEXT})"
        parts = f"CASE WHEN {_matches(self.dialect.whole)} THEN array({record}) ELSE _tm_all END"
        return grouped.selectExpr(lines.FILE, f"inline({parts})").select(
            lines.TEXT, lines.FILE, lines.NUMBER
        )

    def _blank_lines(self) -> int:
        return self._records().where(lines.is_blank(lines.TEXT)).count()


_WITHOUT_MARK = (
    f"CASE WHEN {lines.NUMBER} = 1 AND startswith({lines.TEXT}, '\ufeff') "
    f"THEN substring({lines.TEXT}, 2) ELSE {lines.TEXT} END"
)
_WITHOUT_RETURN = (
    f"CASE WHEN endswith({lines.TEXT}, '\\r') "
    f"THEN left({lines.TEXT}, char_length({lines.TEXT}) - 1) ELSE {lines.TEXT} END"
)


def _matches(pattern: str) -> str:
    return f"regexp_like({lines.TEXT}, {literal(pattern)})"


def _last(value: str, window: str) -> str:
    return f"last({value}) IGNORE NULLS OVER {window}"
