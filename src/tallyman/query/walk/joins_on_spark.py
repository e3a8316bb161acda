"""Joins on computed columns: only evaluating the plan shows which rows matched."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.control.verify.reopen import Again
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.engine.expressions.column_names import KEY, PLACE
from tallyman.engine.expressions.columns import col
from tallyman.engine.files.duck import text
from tallyman.engine.plan import in_place, plain
from tallyman.engine.readback.session import DuckSession
from tallyman.engine.source.source import Input
from tallyman.query.walk.joins import JoinLink


def matched_by_plan(
    again: Again, link: JoinLink, duck: DuckSession, keys: str, limit: int | None
) -> list[dict[str, Any]]:
    """Return the distinct rows of the reference that matched the records with these keys."""
    with _sides(again, link, duck, keys, accounted_inputs(again.plan)) as (left, right, same):
        met = right.join(left, same, "left_semi").distinct()
        few = met if limit is None else met.orderBy(*met.columns).limit(limit)
        return [row.asDict(recursive=True) for row in few.collect()]  # only the rows to show


def met_by_plan(again: Again, link: JoinLink, duck: DuckSession, keys: str) -> int:
    """Count the rows of the asset that matched the reference's rows with these keys."""
    with _sides(again, link, duck, keys, [link.reference]) as (left, right, same):
        return left.join(right, same, "left_semi").count()


def _only(source: Input, wanted: DataFrame) -> DataFrame:
    """Return the records with these keys `k`, or at these places `p`."""
    by_key = wanted.where("p IS NULL").select(F.col("k").alias(KEY))
    found = source.records().join(by_key, KEY, "left_semi")
    if source.places is None:
        return found
    by_place = wanted.where("p IS NOT NULL").select(F.col("p").alias(PLACE))
    return found.unionByName(source.records().join(by_place, PLACE, "left_semi"))


@contextmanager
def _sides(
    again: Again, link: JoinLink, duck: DuckSession, keys: str, only: Collection[str]
) -> Iterator[tuple[DataFrame, DataFrame, Column]]:
    """Evaluate both sides of the join, with the inputs in `only` restricted to the keys; also
    return the join condition."""
    with tempfile.TemporaryDirectory(prefix="tallyman-keys-") as aside:
        file = Path(aside) / "keys.parquet"
        duck.rows(f"COPY (SELECT DISTINCT k, p FROM {keys}) TO {text(str(file))} (FORMAT parquet)")
        wanted = again.spark().read.parquet(str(file))
        placed = bool(duck.value(f"SELECT count(p) FROM {keys}"))
        inputs = {}
        for name, source in again.inputs.items():
            rows = source.records()
            if name in only:
                rows = _only(source.with_places(name) if placed else source, wanted)
            inputs[name] = rows.select(*(col(one) for one in source.schema.names))
        left = in_place.evaluate(link.rows, inputs)
        right = in_place.evaluate(link.looked_in, inputs)
        pairs = plain.join_pairs(link.equalities, left.columns, right.columns)
        named = left.select(*plain.compared(own for own, _ in pairs))
        yield named, right, plain.meets(other for _, other in pairs)
