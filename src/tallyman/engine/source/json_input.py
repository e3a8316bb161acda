"""JSON lines read by Spark's own reader, if every line is one object with a key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from tallyman.engine.expressions.column_names import CORRUPT, KEY, quoted
from tallyman.engine.files import compressed
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source import column_metrics, lines, unfit
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.lines_input import (
    IRREGULAR,
    PARSED,
    LinesInput,
    parsed_field,
    textual_key,
)
from tallyman.engine.source.source import Input, in_few_tasks, nullable
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of

FEW_BYTES = 1 << 20
"""The largest input of which this process takes every key from the scan at the door."""

# An escaped key reads differently once it is parsed.
ODD = f"irregular OR {KEY} IS NULL OR contains({KEY}, '\\\\')"


@dataclass(frozen=True, slots=True)
class _Scan:
    """The scan of all lines: what the door measures, and whether each line is one object."""

    door: Door
    regular: bool
    keys: Sequence[str | None] | None = None


@dataclass(frozen=True)
class JsonInput(LinesInput):
    """JSON lines of one object with a key each: Spark's own reader, twice as fast."""

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = list(self.schema.names if columns is None else columns)
        if self.fits:
            return self.fitting(names)
        unfit_values = unfit.unfit(unfit.outside_years(self.schema, quoted, self.redaction))
        decided = f"{self._decided} AS {CORRUPT}"
        key = f"{self.line_key('false')} AS {KEY}"
        return self._rows.selectExpr(*map(quoted, names), decided, *unfit_values, key)

    def keys(self) -> DataFrame:
        """Read the keys as written in the lines."""
        written = self._text.where(f"NOT ({lines.is_blank(lines.TEXT)})")
        key = self.redaction.shown(self.key[0], textual_key(lines.TEXT, str(self.prefix)))
        return written.selectExpr(f"{key} AS {KEY}")

    def fitting(self, names: Sequence[str]) -> DataFrame:
        schema = StructType(nullable(self.fields({*names, *self.key})))
        rows = self._read(schema, {"mode": "FAILFAST"})
        return rows.selectExpr(*map(quoted, names), f"{self.own_key()} AS {KEY}")

    @cached_property
    def _rows(self) -> DataFrame:
        schema = self._typed(self.schema.fields)
        return self._read(schema, {"columnNameOfCorruptRecord": CORRUPT})

    def _read(self, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        reader = self.spark.read.options(**self.options, **options)
        return in_few_tasks(reader.schema(schema).json(self.files.paths), self.files)

    @property
    def _decided(self) -> str:
        """Write the text of a line that does not fit, judged by every declared column.

        The reader types only columns that the query mentions, and no setting makes it type the
        others. So they are mentioned in a place that is never reached: the first argument of
        `coalesce` is not NULL there, which Spark does not know.
        """
        others = [f"CAST({quoted(name)} AS STRING)" for name in self.schema.names]
        return f"CASE WHEN {CORRUPT} IS NOT NULL THEN coalesce({', '.join([CORRUPT, *others])}) END"

    @property
    def every_record_keyed(self) -> bool:
        return True

    def at_most(self) -> int:
        return self.door().digest.count

    def with_places(self, name: str) -> Input:
        """Switch to reading line by line, because Spark's JSON reader does not number lines."""
        return self.slower().with_places(name)

    def measured(self) -> Door:
        return self._scan.door

    @property
    def regular(self) -> bool:
        """True if every line is one object and shows its key: otherwise nothing is remembered of
        this reader.
        """
        return self.remembered is not None or self._scan.regular

    @property
    def keys_here(self) -> Sequence[str | None] | None:
        return None if self.remembered is not None else self._scan.keys

    @property
    def _text(self) -> DataFrame:
        text = self.spark.read.text(self.files.paths).selectExpr(f"value AS {lines.TEXT}")
        return in_few_tasks(text, self.files)

    @cached_property
    def _scan(self) -> _Scan:
        fields = column_metrics.measured_fields(self.schema, self.redaction)
        fields = fields if self.measures_columns else []
        parsed = [f"{self.parse(lines.TEXT, self.schema.fields)} AS {PARSED}"] if fields else []
        found = self._text.selectExpr(
            *parsed,
            f"{lines.is_blank(lines.TEXT)} AS blank",
            f"{IRREGULAR} AS irregular",
            f"{textual_key(lines.TEXT, str(self.prefix))} AS {KEY}",
        )
        few = self.files.bytes <= FEW_BYTES and not compressed.any_compressed(self.files)
        return self._measure(found, fields) if fields or not few else self._collect(found)

    @property
    def _shown(self) -> str:
        return self.redaction.shown(self.key[0], KEY)

    def _collect(self, found: DataFrame) -> _Scan:
        """Take every key of a small input."""
        odd = f"{ODD} OR NOT is_valid_utf8({KEY})"  # bytes that cannot be collected
        shown = f"make_valid_utf8({self._shown}) AS {KEY}"
        lines_here = found.selectExpr("blank", f"{odd} AS odd", shown).collect()
        written = [line for line in lines_here if not line["blank"]]
        keys = [line[KEY] for line in written]
        door = Door(digest_of(keys), 0, len(lines_here) - len(written))
        return _Scan(door, not any(line["odd"] for line in written), keys)

    def _measure(self, found: DataFrame, fields: list[StructField]) -> _Scan:
        """Add up the keys, and what is to be known of columns."""
        fits = f"NOT blank AND {parsed_field(CORRUPT)} IS NULL"
        row = found.selectExpr(
            *digest.lanes(self._shown, "NOT blank"),
            "count_if(blank) AS blank",
            f"count_if(NOT blank AND ({ODD})) AS odd",
            *column_metrics.aggregates(fields, parsed_field, fits),
        ).first()
        assert row is not None
        columns = column_metrics.of_row(fields, row) if fields and row[digest.COUNT] else None
        door = Door(digest.of_row(row), 0, row["blank"], columns=columns)
        return _Scan(door, row["odd"] == 0)

    def slower(self) -> Input:
        return LinesInput(**{one.name: getattr(self, one.name) for one in fields(LinesInput)})


def sniff_prefix(files: InputFiles, key: str) -> str | None:
    """Find how this input writes `"key":` and whether a quote follows; None if line one has no
    key.
    """
    name = json.dumps(key)
    for file in files.files[:1]:
        with compressed.text_of(files, file) as opened:
            first = opened.readline(1 << 16)
        for prefix in (f'{name}:"', f'{name}: "', f"{name}:", f"{name}: "):
            at = first.find(prefix)
            if at >= 0 and not first[at + len(prefix) :].startswith((" ", '"')):
                return prefix
    return None
