"""References: joined inputs without a ledger, so that every record must be readable."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.engine.expressions.column_names import ERROR, KEY, PART
from tallyman.engine.expressions.columns import col
from tallyman.engine.segment.admit import admit
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.source.source import Input
from tallyman.errors import ReferenceRejected


class References(dict[str, DataFrame]):
    """The rows of inputs by name, each opened when a plan first asks for it."""

    def __init__(self, inputs: Mapping[str, Input]) -> None:
        super().__init__()
        self.inputs = inputs

    def __missing__(self, name: str) -> DataFrame:
        return self.setdefault(name, reference(self.inputs[name]))


def reference(source: Input) -> DataFrame:
    """Read the rows of a reference; ReferenceRejected names records that cannot be read."""
    rows = source.records()
    if source.rejects and not source.fits:
        admitted = admit(source, Book(source.name), ()).rows
        if count := seen_and_bad(admitted)[1]:
            bad = admitted.where(F.col(PART) == ERROR).orderBy(KEY)
            shown = bad.select(KEY).limit(3).collect()
            raise ReferenceRejected(source.name, count, [row[KEY] for row in shown])
    return rows.select(*map(col, source.schema.names))


def seen_and_bad(admitted: DataFrame) -> tuple[int, int]:
    """Count the records, and those that could not be read."""
    bad = F.count_if(F.col(PART) == ERROR).alias("bad")
    row = admitted.agg(F.count(F.lit(1)).alias("seen"), bad).first()
    return (row["seen"], row["bad"]) if row else (0, 0)
