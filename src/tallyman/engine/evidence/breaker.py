"""The circuit breaker: inputs so broken that a run would only fill the dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.engine.evidence import write
from tallyman.engine.expressions.column_names import ERROR, KEY, PART, PLACE, REJECTIONS
from tallyman.engine.segment.admit import admit
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.reference import seen_and_bad
from tallyman.engine.source.lines_input import LinesInput
from tallyman.engine.source.source import Input

FEWEST = 1_000
"""The smallest sample; with fewer records, the thresholds decide at the end."""
SAMPLE = 100


@dataclass(frozen=True, slots=True)
class BreakerTripped:
    seen: int
    bad: int
    sample: DataFrame


def unreadable(source: Input, book: Book, window: int, rate: float) -> BreakerTripped | None:
    """Return a sample if more than `rate` of the first `window` records cannot be read."""
    if not window or not isinstance(source, LinesInput) or source.fits:
        return None
    if source.at_most() < FEWEST:
        return None
    first = admit(source, book, ()).rows.limit(window)
    seen, bad = seen_and_bad(first)
    if seen < FEWEST or bad / seen <= rate:
        return None
    sample = first.where(F.col(PART) == ERROR).limit(SAMPLE)
    unplaced = F.lit(None).alias(PLACE)
    return BreakerTripped(seen, bad, sample.select(KEY, unplaced, REJECTIONS, *write.no_group(0)))
