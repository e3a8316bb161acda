"""Opened inputs: typed columns, the raw text of untyped records, a key for every record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tallyman.engine.expressions.column_names import KEY, PLACE, literal, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source.door_memory import Door, DoorMemory

NOTHING_REDACTED = Redaction()
MANY = 64
"""The number of files from which the tasks that read an input are combined."""
FEWEST = 8
BYTES = 64 << 20
"""The size of the files that one task reads, if there are many."""


@dataclass(frozen=True)
class Input(ABC):
    """An input with pinned files. `schema` holds the declared columns and which are required."""

    name: str
    spark: SparkSession
    files: InputFiles
    schema: StructType
    key: tuple[str, ...]
    options: dict[str, str]
    redaction: Redaction = field(default=NOTHING_REDACTED, kw_only=True)
    places: str | None = field(default=None, kw_only=True)
    """The name under which places of records are read too; None: keys alone name the records."""
    memory: DoorMemory | None = field(default=None, kw_only=True, compare=False)

    @abstractmethod
    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        """Read the columns (all, or those named), the key, the raw text where typing failed, and
        the place if it is read.

        All declared columns decide whether typing failed, whichever are named.
        """

    @abstractmethod
    def at_most(self) -> int:
        """Return an upper bound of the number of records, without another read."""

    def with_places(self, name: str) -> Input:
        """Return the same input, with a place `name@file#number` for each record."""
        return replace(self, places=name)

    def door(self) -> Door:
        """Return count and key digest, remembered for the same bytes or measured now."""
        return self.remembered or self.measured()

    @abstractmethod
    def measured(self) -> Door:
        """Measure count and key digest, with a separate scan."""

    @cached_property
    def remembered(self) -> Door | None:
        """Return what an earlier run measured of the same bytes."""
        if self.memory is None or not self.keyed_by_content:
            return None
        found = self.memory.recall(self.files.content_hash, self._reading)
        if found is None or not self.measures_columns:
            return found and replace(found, columns=None)
        return None if found.columns is None else found

    @property
    def measures_columns(self) -> bool:
        """True if the door also measures columns: those of text inputs, if that is asked for."""
        return self.textual and self.memory is not None and self.memory.of_columns

    def remember(self, door: Door) -> None:
        if self.memory is not None and self.keyed_by_content and door != self.remembered:
            self.memory.keep(self.files.content_hash, self._reading, door)

    def forget(self) -> None:
        """Measure these bytes again in the next run."""
        if self.memory is not None:
            self.memory.forget(self.files.content_hash, self._reading)

    @property
    def _reading(self) -> str:
        """All that decides, besides the bytes, which keys are read."""
        columns = self.schema.simpleString()
        folders = self.files.folders_are_columns
        options = sorted(self.options.items())
        return repr((type(self).__name__, self.key, columns, options, folders))

    def lots(self, columns: Sequence[str]) -> list[tuple[Input, DataFrame]]:
        """Split the records by how they are read, so that errors of each lot are found in one
        way.
        """
        return [(self, self.records(columns))]

    @property
    def rejects(self) -> bool:
        """True if a record of this input can fail before the first step."""
        required = any(not field.nullable for field in self.schema)
        return self.textual or required or bool(self.unfit_columns)

    @property
    def typing(self) -> str | None:
        """All that decides, besides bytes and declaration, whether a record fits; None if values
        are not read from text.
        """
        return None

    @property
    def fits(self) -> bool:
        """True if an earlier run typed every column of these bytes and rejected no record."""
        return False

    @property
    def unfit_columns(self) -> Mapping[str, str]:
        """The columns that may have values that no output can hold, and what is expected."""
        return {}

    @property
    def missing_columns(self) -> Mapping[str, int]:
        """The columns that some files lack, and the number of records in these files."""
        return {}

    @property
    def without_header(self) -> str:
        """List the files that should have a header and have no line at all."""
        return ""

    @property
    def textual(self) -> bool:
        return False

    @property
    def every_record_keyed(self) -> bool:
        """True if the key columns alone give the source key of every record."""
        return False

    @property
    def hides_key(self) -> bool:
        """True if the source key of a record is not the text of its columns."""
        return self.redaction.covers_any(self.key)

    @property
    def keyed_by_content(self) -> bool:
        """True if equal bytes have equal keys, so that a door can be remembered."""
        return not self.hides_key

    def own_key(self) -> str:
        """Write a record's key columns as text, redacted ones as hashes."""
        return key_text(self.key, self.redaction)

    def keys(self) -> DataFrame:
        return self.records([]).select(KEY)

    @property
    def keys_here(self) -> Sequence[str | None] | None:
        """The key of each record, if this process has read them because they are few."""
        return None

    def slower(self) -> Input | None:
        """Return a slower reader of the same records that trusts less; None if there is none."""
        return None


def key_text(
    key: Sequence[str],
    redaction: Redaction = NOTHING_REDACTED,
    value_of: Callable[[str], str] = quoted,
) -> str:
    """Write the text of a key in SQL: one column as it is, several as a JSON object to keep values
    apart.
    """
    if len(key) == 1:
        return redaction.shown(key[0], value_of(key[0]))
    values = {k: value_of(k) for k in key}
    there = " AND ".join(f"{value} IS NOT NULL" for value in values.values())
    shown = {k: redaction.shown(k, v) if redaction.covers(k) else v for k, v in values.items()}
    fields = ", ".join(f"{literal(k)}, {value}" for k, value in shown.items())
    return f"CASE WHEN {there} THEN to_json(named_struct({fields})) END"


def placed(source: Input, place: str) -> list[str]:
    """Write the column with a record's place, if the input reads it."""
    if source.places is None:
        return []
    return [f"concat({literal(source.places)}, {place}) AS {PLACE}"]


def in_few_tasks(rows: DataFrame, files: InputFiles) -> DataFrame:
    """Combine the tasks that read many small files. Spark reads 32 of them in a task, and each task
    writes files of its own: for 3,000 files of a line, that takes most of the time.
    """
    if len(files.files) < MANY:
        return rows
    return rows.coalesce(max(FEWEST, files.bytes // BYTES + 1))


def nullable(fields: Sequence[StructField]) -> list[StructField]:
    return [StructField(f.name, f.dataType, True) for f in fields]
