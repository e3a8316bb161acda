"""Opened inputs: typed columns, the raw text of what could not be typed, a key for every record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.columns import KEY, PLACE, col
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.listing import InputFiles

NOTHING_REDACTED = Redaction()


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


def nullable(fields: Sequence[StructField]) -> list[StructField]:
    return [StructField(f.name, f.dataType, True) for f in fields]
