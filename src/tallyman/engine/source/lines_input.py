"""Text inputs read line by line, with the text and the number of each line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from tallyman.engine.expressions.column_names import CORRUPT, KEY, PLACE, UNFIT, literal, quoted
from tallyman.engine.source import column_metrics, lines, unfit
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.source import Input, key_text, nullable, placed
from tallyman.engine.spark import digest

PARSED, BROKEN = "_tm_parsed", "_tm_broken"
_PLACED = f"concat('@', {lines.FILE}, '#', CAST({lines.NUMBER} AS STRING))"
_QUOTE = literal('"')
TYPING = (
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.legacy.json.allowEmptyString.enabled",
    "spark.sql.legacy.json.enableDateTimeParsingFallback",
    "spark.sql.legacy.csv.enableDateTimeParsingFallback",
)
"""Settings of Spark that decide whether a text fits a type."""
BAD_UTF8 = f"NOT is_valid_utf8({lines.TEXT})"
# Compare bytes: to count characters, or to search texts, costs more than all else at the door.
_ALL_BUT_LAST = f"substring(CAST({lines.TEXT} AS BINARY), 1, octet_length({lines.TEXT}) - 1)"
# Half of a character of two parts (`\\ud83d` alone), which the reader would turn into `?`. Escaped
# backslashes and whole characters are taken out first.
_PAIR = r"\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_CHARACTER = (
    rf"(contains({_ALL_BUT_LAST}, X'5C75')"
    rf" AND (contains({lines.TEXT}, '\\ud') OR contains({lines.TEXT}, '\\uD')) AND regexp_like("
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

    @cached_property
    def typing(self) -> str:
        settings = (self.spark.conf.get(name, None) for name in TYPING)
        return repr((self.spark.version, *settings))

    @cached_property
    def fits(self) -> bool:
        known = self.remembered
        return known is not None and known.typing is not None and known.typing == self.typing

    def parse(self, text: str, fields: Sequence[StructField]) -> str:
        """Write the fields of a text as a struct; CORRUPT holds the text if one of them did not
        fit.
        """
        return self._parser("from_json", text, fields, ("lineSep",))

    @property
    def parser_options(self) -> dict[str, str]:
        return self.options

    def _parser(
        self, function: str, text: str, fields: Sequence[StructField], unused: Collection[str]
    ) -> str:
        given = {n: value for n, value in self.parser_options.items() if n not in unused}
        mode = "FAILFAST" if self.fits else "PERMISSIVE"
        given |= {"columnNameOfCorruptRecord": CORRUPT, "mode": mode}
        options = ", ".join(literal(word) for option in given.items() for word in option)
        return f"{function}({text}, {literal(self._typed(fields).json())}, map({options}))"

    def parsed(self, fields: Sequence[StructField]) -> str:
        """Write the fields of a line as a struct, NULL if it cannot be parsed at all."""
        return f"CASE WHEN NOT ({self._unreadable}) THEN {self.parse(lines.TEXT, fields)} END"

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
        return found.where(f"NOT ({lines.is_blank(lines.TEXT)})")

    @property
    def _unreadable(self) -> str:
        """Write the condition that a line cannot be parsed at all."""
        return f"{BAD_UTF8} OR {IRREGULAR}"

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = self.schema.names if columns is None else columns
        return self.fitting(names) if self.fits else self._typed_lines(names, self.positions)

    def fitting(self, names: Sequence[str]) -> DataFrame:
        """Read lines that are known to fit: only the named columns are typed, and nothing is
        diagnosed. A line that does not fit after all is an error of Spark's.
        """
        parsed = f"{self.parse(lines.TEXT, self.fields({*names, *self.key}))} AS {PARSED}"
        found = self._lines().selectExpr(parsed, f"{_PLACED} AS {PLACE}")
        own = [key_text(self.key, self.redaction, parsed_field)] if self.key else []
        return found.selectExpr(
            *(f"{parsed_field(name)} AS {quoted(name)}" for name in names),
            f"coalesce({', '.join([*own, PLACE])}) AS {KEY}",
            *placed(self, PLACE),
        )

    def keys(self) -> DataFrame:
        """Read the keys without typing any other field, which cannot change a key."""
        return self._typed_lines([], self.fields(self.key)).select(KEY)

    def _typed_lines(self, names: Sequence[str], fields: Sequence[StructField]) -> DataFrame:
        parsed = f"{self.parsed(fields)} AS {PARSED}"
        found = self._lines().selectExpr(lines.TEXT, lines.FILE, lines.NUMBER, parsed)
        declared = [f for f in fields if f.name in self.schema.names]
        unfit_values = unfit.unfit(unfit.outside_years(declared, parsed_field, self.redaction))
        typed = found.selectExpr(
            *(f"{parsed_field(n)} AS {quoted(n)}" for n in dict.fromkeys([*names, *self.key])),
            f"CASE WHEN {PARSED} IS NULL THEN make_valid_utf8({lines.TEXT}) "
            f"ELSE {PARSED}.{CORRUPT} END AS {CORRUPT}",
            f"{_PLACED} AS {PLACE}",
            f"{PARSED} IS NULL AS {BROKEN}",
            *unfit_values,
        )
        of_line = [self.line_key(BROKEN)] if self.key else []
        key = f"coalesce({', '.join([*of_line, PLACE])}) AS {KEY}"
        also = [CORRUPT, *([UNFIT] if unfit_values else [])]
        return typed.selectExpr(*map(quoted, names), *also, key, *placed(self, PLACE))

    def at_most(self) -> int:
        return self._splits.lines

    def line_key(self, broken: str) -> str:
        """Write the key of a line, the same whichever fields are typed.

        A parser that fails inside a typed field keeps the fields before it, and fails as a whole
        if the field is skipped. So the key of a line that does not fit is what a parser of the key
        alone finds, and otherwise what is written in the text of a line without readable key.
        """
        parsed = self.parse(CORRUPT, self.fields(self.key))
        alone = f"(CASE WHEN NOT {broken} THEN {parsed} END)"
        found = key_text(self.key, self.redaction, lambda name: f"{alone}.{quoted(name)}")
        if self.prefix:
            unread = f"(CASE WHEN {broken} THEN {CORRUPT} ELSE {alone}.{CORRUPT} END)"
            written = textual_key(unread, self.prefix)
            found = f"coalesce({found}, {self.redaction.shown(self.key[0], written)})"
        return f"CASE WHEN {CORRUPT} IS NULL THEN {self.own_key()} ELSE {found} END"

    def measured(self) -> Door:
        """Measure what the door needs; columns are typed only if they are measured too."""
        fields = column_metrics.measured_fields(self.schema, self.redaction)
        fields = fields if self.measures_columns else []
        found = self.records([field.name for field in fields]) if fields else self.keys()
        row = found.selectExpr(
            *digest.lanes(KEY),
            f"count_if({lines.is_place(KEY)}) AS n",
            *column_metrics.aggregates(fields, quoted, f"{CORRUPT} IS NULL"),
        ).first()
        columns = column_metrics.of_row(fields, row) if fields else None
        return Door(
            digest.of_row(row), row["n"] if row else 0, self._blank_lines(), columns=columns
        )

    def _blank_lines(self) -> int:
        raw = self.spark.read.text(self.files.paths)
        return raw.where(lines.is_blank("value")).count()


def parsed_field(name: str) -> str:
    return f"{PARSED}.{quoted(name)}"


def textual_key(text: str, prefix: str) -> str:
    """Write the key as written in the line, without parsing the line."""
    found = f"locate({literal(prefix)}, {text})"
    start = f"{found} + {len(prefix)}"
    if prefix.endswith('"'):
        end = f"locate({_QUOTE}, {text}, {start})"
        key = f"substr({text}, {start}, {end} - ({start}))"
        return f"CASE WHEN {found} > 0 AND {end} > 0 THEN {key} END"
    rest = f"substr({text}, {start}, 64)"
    value = f"trim(substring_index(substring_index({rest}, ',', 1), '}}', 1))"
    bare = f"CASE WHEN {value} NOT IN ('', 'null') THEN {value} END"
    either = f"CASE WHEN startswith({value}, {_QUOTE}) THEN {_quoted(text, start)} ELSE {bare} END"
    return f"CASE WHEN {found} > 0 THEN {either} END"


def _quoted(text: str, start: str) -> str:
    """Write the text between the first two quotes from `start` on; NULL if one is missing."""
    first = f"locate({_QUOTE}, {text}, {start})"
    end = f"locate({_QUOTE}, {text}, {first} + 1)"
    key = f"substr({text}, {first} + 1, {end} - {first} - 1)"
    return f"CASE WHEN {first} > 0 AND {end} > 0 THEN {key} END"
