"""Opened inputs: typed columns, the raw text of what could not be typed, a key for every record."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.columns import CORRUPT, KEY, PLACE, col, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source import lines
from tallyman.engine.spark import digest
from tallyman.errors import InputUnreadable

NOTHING_REDACTED = Redaction()
BAD_UTF8 = f"NOT is_valid_utf8({lines.TEXT})"
# As bytes: counting characters would cost more than everything else at the door.
_ALL_BUT_LAST = f"substring(CAST({lines.TEXT} AS BINARY), 1, octet_length({lines.TEXT}) - 1)"
# Lines of which Spark's JSON reader would make no row, several rows, or half a row in silence.
# Only where a brace closes before the last byte is the line taken apart: wrapped in brackets and
# in braces it must be one element both times, which nothing but one whole value is.
IRREGULAR = (
    f"(startswith(ltrim({lines.TEXT}), '[')"
    f" OR (contains({_ALL_BUT_LAST}, X'7D')"
    f" AND NOT coalesce(json_array_length(concat('[', {lines.TEXT}, ']')) = 1"
    f" AND size(json_object_keys(concat('{{\"a\":', {lines.TEXT}, '}}'))) = 1, false)))"
)


@dataclass(frozen=True, slots=True)
class Door:
    """What stands at the door of an input, measured before and apart from any step."""

    digest: KeyDigest
    null_keys: int = 0
    blank_lines: int = 0


@dataclass(frozen=True)
class Input(ABC):
    """An input with its files pinned. `schema` holds the declared columns and the required."""

    name: str
    spark: SparkSession
    files: InputFiles
    schema: StructType
    key: tuple[str, ...]
    options: dict[str, str]
    redaction: Redaction = field(default=NOTHING_REDACTED, kw_only=True)
    places: str | None = field(default=None, kw_only=True)
    """Read the place of every record too, under this name; None: keys alone name the records."""

    @abstractmethod
    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        """The columns (all, or those named), the key, the raw text where typing failed, and the
        place where it is read.

        Whether typing failed is decided by all declared columns, whichever are named."""

    @abstractmethod
    def at_most(self) -> int:
        """An upper bound of its records, known without reading them once more."""

    def with_places(self, name: str) -> Input:
        """The same records, each with its place `name@file#number`."""
        return replace(self, places=name)

    @abstractmethod
    def door(self) -> Door:
        """Counts and key digest, from a scan of its own."""

    def lots(self, columns: Sequence[str]) -> list[tuple[Input, DataFrame]]:
        """Its records by how they are read: what is wrong with one is found in the same way."""
        return [(self, self.records(columns))]

    @property
    def rejects(self) -> bool:
        """Whether a record of this input can fail before the first step."""
        return self.textual or any(not field.nullable for field in self.schema)

    @property
    def textual(self) -> bool:
        return False

    @property
    def every_record_keyed(self) -> bool:
        """True if the key columns alone give the source key of every record."""
        return False

    @property
    def hides_key(self) -> bool:
        """Whether the source key of a record is not what its columns read."""
        return self.redaction.covers_any(self.key)

    def own_key(self) -> Column:
        """Of a record: its key columns as text, redacted ones as their hashes."""
        return key_text(self.key, self.redaction)

    def keys(self) -> DataFrame:
        return self.records([]).select(KEY)

    def slower(self) -> Input | None:
        """A reading of the same records that trusts less, if there is one."""
        return None


def key_text(key: Sequence[str], redaction: Redaction = NOTHING_REDACTED) -> Column:
    """One column as it reads; several as a JSON object, so that values cannot run together."""
    if len(key) == 1:
        return redaction.shown(key[0], col(key[0]))
    shown = [redaction.shown(k, col(k)) if redaction.covers(k) else col(k) for k in key]
    return F.when(
        F.greatest(*(col(k).isNull().cast("int") for k in key)) == 0,
        F.to_json(F.struct(*(value.alias(k) for k, value in zip(key, shown, strict=True)))),
    )


def placed(source: Input, place: Column) -> list[Column]:
    """The column with a record's place, if the input reads it."""
    if source.places is None:
        return []
    return [F.concat(F.lit(source.places), place).alias(PLACE)]


def _nullable(fields: Sequence[StructField]) -> list[StructField]:
    return [StructField(f.name, f.dataType, True) for f in fields]


def footers(files: InputFiles) -> list[pq.FileMetaData]:
    """Of every file, or InputUnreadable with the first that is no Parquet."""
    found = []
    for file in files.files:
        try:
            found.append(pq.read_metadata(file.path))
        except (pa.ArrowException, OSError) as error:
            raise InputUnreadable(files.input, file.name, str(error)) from None
    return found


@dataclass(frozen=True)
class ParquetInput(Input):
    """Columns are typed in the file; a record without a key is named by its row."""

    @cached_property
    def _footers(self) -> list[pq.FileMetaData]:
        return footers(self.files)

    @cached_property
    def every_record_keyed(self) -> bool:
        return bool(self.key) and all(map(self._keyed, self._footers))

    def _keyed(self, footer: pq.FileMetaData) -> bool:
        if footer.num_rows == 0:
            return True
        names = [footer.schema.column(i).path for i in range(footer.num_columns)]
        if not set(self.key) <= set(names):
            return False
        groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
        statistics = [g.column(names.index(k)).statistics for g in groups for k in self.key]
        return all(s is not None and s.has_null_count and s.null_count == 0 for s in statistics)

    def _read(self) -> DataFrame:
        reader = self.spark.read.options(**self.options)
        if self.files.folders_are_columns:
            reader = reader.option("basePath", self.files.root)
        return reader.schema(StructType(_nullable(self.schema.fields))).parquet(*self.files.paths)

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = self.schema.names if columns is None else list(columns)
        if self.every_record_keyed and self.places is None:
            return self._read().select(*map(col, names), self.own_key().alias(KEY))
        rows = self._read()
        hidden = rows.metadataColumn("_metadata")  # a column of the user's may have the same name
        path = hidden.getField("file_path").alias("_tm_path")
        row = (hidden.getField("row_index") + 1).alias("_tm_row")
        found = rows.select("*", path, row)
        name = lines.relative_name(F.col("_tm_path"), self.files.root)
        fallback = F.concat(F.lit("@"), name, F.lit("#"), F.col("_tm_row").cast("string"))
        key = F.coalesce(self.own_key(), fallback) if self.key else fallback
        return found.select(*map(col, names), key.alias(KEY), *placed(self, fallback))

    def at_most(self) -> int:
        return sum(footer.num_rows for footer in self._footers)

    def door(self) -> Door:
        found = digest.of_keys(self.keys())
        # Two witnesses: the footers count the rows, the scan digests the keys.
        counted = self.at_most()
        nulls = 0
        if self.key and not self.every_record_keyed:
            nulls = self.keys().where(lines.is_place(F.col(KEY))).count()
        return Door(replace(found, count=counted), nulls or (0 if self.key else counted))


@dataclass(frozen=True)
class LinesInput(Input):
    """Text lines parsed one by one; every line keeps its text and its number."""

    format: str
    prefix: str | None = None
    """What stands before a textual key in a JSON line, learned from the first line."""

    @property
    def textual(self) -> bool:
        return True

    @cached_property
    def _splits(self) -> lines.Splits:
        return lines.splits(self.spark, self.files, self.options.get("lineSep"))

    def _typed(self, fields: Sequence[StructField]) -> StructType:
        return StructType([*_nullable(fields), StructField(CORRUPT, StringType())])

    def parse(self, text: Column, fields: Sequence[StructField]) -> Column:
        """The fields as a struct; CORRUPT holds the text when one of them did not fit."""
        options = {**self.options, "columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}
        options.pop("lineSep", None)
        if self.format == "json":
            return F.from_json(text, self._typed(fields), options)
        options.pop("header", None)
        return F.from_csv(text, ", ".join(map(schema_text, self._typed(fields))), options)

    @cached_property
    def positions(self) -> list[StructField]:
        """The fields in the order of the line: for CSV with a header, the order of the header."""
        if self.format == "json" or not self.header:
            return list(self.schema.fields)
        declared = {field.name: field for field in self.schema.fields}
        return [declared.get(n, StructField(n, StringType())) for n in self.header]

    def fields(self, wanted: Collection[str]) -> list[StructField]:
        """The line's fields with only those wanted typed: no other can fail."""
        if self.format == "json":
            return [f for f in self.positions if f.name in wanted]
        return [
            f if f.name in wanted else StructField(f.name, StringType()) for f in self.positions
        ]

    @property
    def first_lines(self) -> list[str]:
        return list(self._splits.first_lines.values())

    @cached_property
    def header(self) -> list[str]:
        if self.format != "csv" or self.options.get("header", "true") != "true":
            return []
        if not self.first_lines:
            return []
        separator, first = self.options.get("sep", ","), self.first_lines[0]
        return [name.strip().strip('"') for name in first.lstrip("\ufeff").split(separator)]

    def _lines(self) -> DataFrame:
        found = lines.numbered(self.spark, self.files, self._splits, self.options.get("lineSep"))
        return found.where(f"{lines.NUMBER} > 1") if self.header else found

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        return self._typed_lines(self.schema.names if columns is None else columns, self.positions)

    def keys(self) -> DataFrame:
        """Without typing any other field: that cannot change a key."""
        return self._typed_lines([], self.fields(self.key)).select(KEY)

    def _typed_lines(self, names: Sequence[str], fields: Sequence[StructField]) -> DataFrame:
        unreadable = BAD_UTF8 if self.format == "csv" else f"{BAD_UTF8} OR {IRREGULAR}"
        text = F.col(lines.TEXT)
        parsed = F.when(~F.expr(unreadable), self.parse(text, fields)).alias("_tm_parsed")
        found = self._lines().select(lines.TEXT, lines.FILE, lines.NUMBER, parsed)
        place = F.concat(
            F.lit("@"), F.col(lines.FILE), F.lit("#"), F.col(lines.NUMBER).cast("string")
        )
        broken = F.col("_tm_parsed").isNull()
        typed = found.select(
            *(F.col("_tm_parsed").getField(n).alias(n) for n in dict.fromkeys([*names, *self.key])),
            F.when(broken, F.expr(f"make_valid_utf8({lines.TEXT})"))
            .otherwise(F.col(f"_tm_parsed.{CORRUPT}"))
            .alias(CORRUPT),
            place.alias(PLACE),
            broken.alias("_tm_broken"),
        )
        candidates = [self.own_key()] if self.key else []
        if self.prefix:
            unread = F.when(F.col("_tm_broken"), F.col(CORRUPT)).otherwise(self._keyless())
            candidates.append(self.redaction.shown(self.key[0], textual_key(unread, self.prefix)))
        key = F.coalesce(*candidates, F.col(PLACE)).alias(KEY)
        return typed.select(*map(col, names), CORRUPT, key, *placed(self, F.col(PLACE)))

    def at_most(self) -> int:
        return self._splits.lines

    def _keyless(self) -> Column:
        """The text of a line whose key could not be read; NULL where only another field is wrong,
        so that the key of a record is the same whichever fields are typed."""
        line = F.col(CORRUPT)
        alone = self.parse(line, [f for f in self.schema if f.name in self.key])
        return F.when(line.isNotNull() & key_text(self.key).isNull(), alone.getField(CORRUPT))

    def door(self) -> Door:
        found = self.keys()
        row = found.agg(
            *digest.lanes(F.col(KEY)), F.count_if(lines.is_place(F.col(KEY))).alias("n")
        ).first()
        raw = self.spark.read.text(self.files.paths)
        blank = raw.where(lines.is_blank(F.col("value"))).count()
        return Door(digest.of_row(row), row["n"] if row else 0, blank)


@dataclass(frozen=True)
class JsonInput(LinesInput):
    """JSON lines that each hold one object with a key: Spark's own reader, twice as fast."""

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = list(self.schema.names if columns is None else columns)
        return self._rows().select(*map(col, names), self._decided().alias(CORRUPT), self._key())

    def keys(self) -> DataFrame:
        return self._rows().select(self._key())

    def _rows(self) -> DataFrame:
        reader = self.spark.read.options(**self.options)
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
        return reader.schema(self._typed(self.schema.fields)).json(self.files.paths)

    def _key(self) -> Column:
        written = textual_key(self._keyless(), str(self.prefix))
        return F.coalesce(self.own_key(), self.redaction.shown(self.key[0], written)).alias(KEY)

    def _decided(self) -> Column:
        """The text of a line that does not fit, by every declared column.

        The reader types only columns that the query mentions, and no setting makes it type the
        others. So they are mentioned, in a place that is never reached: the first of the values
        is not NULL there. Spark does not know that."""
        line = F.col(CORRUPT)
        others = [col(name).cast("string") for name in self.schema.names]
        return F.when(line.isNotNull(), F.coalesce(line, *others))

    @property
    def every_record_keyed(self) -> bool:
        return True

    def at_most(self) -> int:
        return self._scan[0].digest.count

    def with_places(self, name: str) -> Input:
        """Spark's JSON reader does not number lines."""
        return self.slower().with_places(name)

    def door(self) -> Door:
        return self._scan[0]

    @property
    def regular(self) -> bool:
        """Whether every line is one object and shows its key."""
        return self._scan[1]

    @cached_property
    def _scan(self) -> tuple[Door, bool]:
        text = self.spark.read.text(self.files.paths).select(F.col("value").alias(lines.TEXT))
        key = textual_key(F.col(lines.TEXT), str(self.prefix))
        found = text.select(
            lines.is_blank(F.col(lines.TEXT)).alias("blank"),
            F.expr(IRREGULAR).alias("irregular"),
            key.alias(KEY),
        )
        # An escaped key reads differently once it is parsed.
        odd = F.col("irregular") | F.col(KEY).isNull() | F.contains(F.col(KEY), F.lit("\\"))
        shown = self.redaction.shown(self.key[0], F.col(KEY))
        rows = found.groupBy("blank").agg(*digest.lanes(shown), F.count_if(odd).alias("odd"))
        by_blank = {row["blank"]: row for row in rows.collect()}  # two rows
        if (full := by_blank.get(False)) is None:
            full = {digest.COUNT: 0, digest.HIGH: 0, digest.LOW: 0, "odd": 0}
        blank = by_blank[True][digest.COUNT] if True in by_blank else 0
        return Door(digest.of_row(full), 0, blank), full["odd"] == 0

    def slower(self) -> Input:
        return LinesInput(
            self.name,
            self.spark,
            self.files,
            self.schema,
            self.key,
            self.options,
            self.format,
            self.prefix,
            redaction=self.redaction,
        )


def textual_key(text: Column, prefix: str) -> Column:
    """The key as it is written in the line, without parsing the line."""
    found = F.locate(prefix, text)
    start = found + F.lit(len(prefix))
    if prefix.endswith('"'):
        end = F.call_function("locate", F.lit('"'), text, start)
        return F.when((found > 0) & (end > 0), F.substr(text, start, end - start))
    rest = F.substr(text, start, F.lit(64))
    value = F.trim(F.substring_index(F.substring_index(rest, ",", 1), "}", 1))
    return F.when((found > 0) & ~value.isin("", "null"), value)


def sniff_prefix(files: InputFiles, key: str) -> str | None:
    """How this input writes `"key":` and whether a quote follows; None if line one has none."""
    name = json.dumps(key)
    for file in files.files[:1]:
        with open(file.path, encoding="utf-8", errors="replace") as opened:
            first = opened.readline(1 << 16)
        for prefix in (f'{name}:"', f'{name}: "', f"{name}:", f"{name}: "):
            at = first.find(prefix)
            if at >= 0 and not first[at + len(prefix) :].startswith((" ", '"')):
                return prefix
    return None


def schema_text(field: StructField) -> str:
    return f"{quoted(field.name)} {field.dataType.simpleString()}"
