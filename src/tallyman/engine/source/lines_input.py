"""Text inputs read line by line, with the text and the number of each line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tallyman.engine.expressions.column_names import CORRUPT, KEY, PLACE, UNFIT
from tallyman.engine.expressions.columns import col
from tallyman.engine.source import column_metrics, lines, unfit
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.source import Input, key_text, nullable, placed
from tallyman.engine.spark import digest

BAD_UTF8 = f"NOT is_valid_utf8({lines.TEXT})"
# Compare bytes: counting characters would cost more than everything else at the door.
_ALL_BUT_LAST = f"substring(CAST({lines.TEXT} AS BINARY), 1, octet_length({lines.TEXT}) - 1)"
# Half of a character of two parts (`\\ud83d` alone), which the reader would turn into `?`. Escaped
# backslashes and whole characters are taken out first.
_PAIR = r"\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_CHARACTER = (
    rf"((contains({lines.TEXT}, '\\ud') OR contains({lines.TEXT}, '\\uD')) AND regexp_like("
    rf"regexp_replace(regexp_replace({lines.TEXT}, '\\\\\\\\', ''), '{_PAIR}', ''),"
    r" '\\\\u[dD][89a-fA-F]'))"
)
# Lines that Spark's JSON reader would silently turn into no row, several rows, or half a row. A
# line is examined only if a brace closes before its last byte: wrapped in brackets and wrapped in
# braces it must be one element both times, which only one whole value is.
IRREGULAR = (
    f"(startswith(ltrim({lines.TEXT}), '[')"
    f" OR (contains({_ALL_BUT_LAST}, X'7D')"
    f" AND NOT coalesce(json_array_length(concat('[', {lines.TEXT}, ']')) = 1"
    f" AND size(json_object_keys(concat('{{\"a\":', {lines.TEXT}, '}}'))) = 1, false))"
    f" OR {_HALF_CHARACTER})"
)


@dataclass(frozen=True)
class LinesInput(Input):
    """Text lines parsed one by one; every line keeps its text and its number."""

    prefix: str | None = None
    """The text before a textual key in a JSON line, learned from the first line."""

    @property
    def textual(self) -> bool:
        return True

    @property
    def unfit_columns(self) -> Mapping[str, str]:
        dated = filter(unfit.dated, self.schema)
        return {f.name: f"{f.dataType.simpleString()} in {unfit.YEARS}" for f in dated}

    @property
    def _reading(self) -> str:
        return f"{super()._reading} {self.prefix}"

    @cached_property
    def _splits(self) -> lines.Splits:
        return lines.splits(self.spark, self.files, self.options.get("lineSep"))

    def _typed(self, fields: Sequence[StructField]) -> StructType:
        return StructType([*nullable(fields), StructField(CORRUPT, StringType())])

    def parse(self, text: Column, fields: Sequence[StructField]) -> Column:
        """Parse the fields as a struct; CORRUPT holds the text if one of them did not fit."""
        options = {**self.options, "columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}
        options.pop("lineSep", None)
        return F.from_json(text, self._typed(fields), options)

    @property
    def positions(self) -> list[StructField]:
        """List the fields in the order of the line."""
        return list(self.schema.fields)

    def fields(self, wanted: Collection[str]) -> list[StructField]:
        """List the line's fields with a type only for the wanted ones, so that no other can
        fail.
        """
        return [f for f in self.positions if f.name in wanted]

    @property
    def one_record(self) -> str:
        """Say what a line has to be, for people."""
        return "one JSON object on the line"

    def _lines(self) -> DataFrame:
        """Read every line that is not blank."""
        found = lines.numbered(self.spark, self.files, self._splits, self.options.get("lineSep"))
        return found.where(~lines.is_blank(F.col(lines.TEXT)))

    @property
    def _unreadable(self) -> str:
        """Write the condition that a line cannot be parsed at all."""
        return f"{BAD_UTF8} OR {IRREGULAR}"

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        return self._typed_lines(self.schema.names if columns is None else columns, self.positions)

    def keys(self) -> DataFrame:
        """Read the keys without typing any other field, which cannot change a key."""
        return self._typed_lines([], self.fields(self.key)).select(KEY)

    def _typed_lines(self, names: Sequence[str], fields: Sequence[StructField]) -> DataFrame:
        text = F.col(lines.TEXT)
        parsed = F.when(~F.expr(self._unreadable), self.parse(text, fields)).alias("_tm_parsed")
        found = self._lines().select(lines.TEXT, lines.FILE, lines.NUMBER, parsed)
        place = F.concat(
            F.lit("@"), F.col(lines.FILE), F.lit("#"), F.col(lines.NUMBER).cast("string")
        )
        broken = F.col("_tm_parsed").isNull()
        declared = [f for f in fields if f.name in self.schema.names]
        unfit_values = unfit.unfit(
            unfit.outside_years(declared, F.col("_tm_parsed").getField, self.redaction)
        )
        typed = found.select(
            *(F.col("_tm_parsed").getField(n).alias(n) for n in dict.fromkeys([*names, *self.key])),
            F.when(broken, F.expr(f"make_valid_utf8({lines.TEXT})"))
            .otherwise(F.col(f"_tm_parsed.{CORRUPT}"))
            .alias(CORRUPT),
            place.alias(PLACE),
            broken.alias("_tm_broken"),
            *unfit_values,
        )
        of_line = [self.line_key(F.col("_tm_broken"))] if self.key else []
        key = F.coalesce(*of_line, F.col(PLACE)).alias(KEY)
        also = [CORRUPT, *([UNFIT] if unfit_values else [])]
        return typed.select(*map(col, names), *also, key, *placed(self, F.col(PLACE)))

    def at_most(self) -> int:
        return self._splits.lines

    def line_key(self, broken: Column) -> Column:
        """Return the key of a line, the same whichever fields are typed.

        A parser that fails inside a typed field keeps the fields before it, and fails as a whole
        if the field is skipped. So the key of a line that does not fit is what a parser of the key
        alone finds, and otherwise what is written in the text of a line without readable key.
        """
        line = F.col(CORRUPT)
        alone = F.when(~broken, self.parse(line, self.fields(self.key)))
        found = key_text(self.key, self.redaction, alone.getField)
        if self.prefix:
            unread = F.when(broken, line).otherwise(alone.getField(CORRUPT))
            written = textual_key(unread, self.prefix)
            found = F.coalesce(found, self.redaction.shown(self.key[0], written))
        return F.when(line.isNull(), self.own_key()).otherwise(found)

    def measured(self) -> Door:
        """Measure what the door needs; columns are typed only if they are measured too."""
        fields = column_metrics.measured_fields(self.schema, self.redaction)
        fields = fields if self.measures_columns else []
        found = self.records([field.name for field in fields]) if fields else self.keys()
        row = found.agg(
            *digest.lanes(KEY),
            F.count_if(lines.is_place(F.col(KEY))).alias("n"),
            *column_metrics.aggregates(fields, col, F.col(CORRUPT).isNull()),
        ).first()
        columns = column_metrics.of_row(fields, row) if fields else None
        return Door(
            digest.of_row(row), row["n"] if row else 0, self._blank_lines(), columns=columns
        )

    def _blank_lines(self) -> int:
        raw = self.spark.read.text(self.files.paths)
        return raw.where(lines.is_blank(F.col("value"))).count()


def textual_key(text: Column, prefix: str) -> Column:
    """Find the key as written in the line, without parsing the line."""
    found = F.locate(prefix, text)
    start = found + F.lit(len(prefix))
    if prefix.endswith('"'):
        end = F.call_function("locate", F.lit('"'), text, start)
        return F.when((found > 0) & (end > 0), F.substr(text, start, end - start))
    rest = F.substr(text, start, F.lit(64))
    value = F.trim(F.substring_index(F.substring_index(rest, ",", 1), "}", 1))
    bare = F.when(~value.isin("", "null"), value)
    return F.when(found > 0, F.when(value.startswith('"'), _quoted(text, start)).otherwise(bare))


def _quoted(text: Column, start: Column) -> Column:
    """Return the text between the first two quotes from `start` on; NULL if one is missing."""
    first = F.call_function("locate", F.lit('"'), text, start)
    end = F.call_function("locate", F.lit('"'), text, first + 1)
    return F.when((first > 0) & (end > 0), F.substr(text, first + 1, end - first - 1))
