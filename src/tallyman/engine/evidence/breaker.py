"""Looking before reading on: inputs so broken that a run would only fill the dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.engine.evidence import write
from tallyman.engine.expressions.columns import ERROR, KEY, PART, PLACE, REJECTIONS, col
from tallyman.engine.segment.admit import admit
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.source.source import Input, LinesInput
from tallyman.errors import ReferenceRejected

FEWEST = 1_000
"""Fewer records than this are no sample: the thresholds judge them at the end."""
SAMPLE = 100


@dataclass(frozen=True, slots=True)
class BreakerTripped:
    seen: int
    bad: int
    sample: DataFrame


def unreadable(source: Input, book: Book, window: int, rate: float) -> BreakerTripped | None:
    """More than `rate` of the first `window` records cannot be read."""
    if not window or not isinstance(source, LinesInput):
        return None
    first = admit(source, book, ()).rows.limit(window)
    seen, bad = seen_and_bad(first)
    if seen < FEWEST or bad / seen <= rate:
        return None
    sample = first.where(F.col(PART) == ERROR).limit(SAMPLE)
    unplaced = F.lit(None).alias(PLACE)
    return BreakerTripped(seen, bad, sample.select(KEY, unplaced, REJECTIONS, *write.no_group(0)))


def reference(source: Input) -> DataFrame:
    """A reference is pinned and has no ledger: every record of it must be readable."""
    rows = source.records()
    if source.rejects:
        admitted = admit(source, Book(source.name), ()).rows
        if count := seen_and_bad(admitted)[1]:
            bad = admitted.where(F.col(PART) == ERROR).orderBy(KEY)
            shown = bad.select(KEY).limit(3).collect()
            raise ReferenceRejected(source.name, count, [row[KEY] for row in shown])
    return rows.select(*map(col, source.schema.names))


def seen_and_bad(admitted: DataFrame) -> tuple[int, int]:
    bad = F.count_if(F.col(PART) == ERROR).alias("bad")
    row = admitted.agg(F.count(F.lit(1)).alias("seen"), bad).first()
    return (row["seen"], row["bad"]) if row else (0, 0)
