"""Many files are read in few tasks: every record keeps its file and its number."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.expressions.column_names import KEY
from tallyman.engine.files.listing import list_files
from tallyman.engine.source.open import declared_schema, open_source
from tallyman.engine.source.source import FEWEST, MANY, Input

FILES = MANY + 36


def opened(spark: SparkSession, home: Path, **declared: str) -> Input:
    source = Source(name="s", path=".", **declared)
    schema = declared_schema(spark, source, home)
    return open_source(spark, source, schema, list_files("s", ".", home))


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_lines_of_many_files_keep_their_numbers(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    wanted = {}
    for n in range(FILES):
        values = [n * 10 + i for i in range(n % 4 + 1)]
        text = [f'{{"v": {v}}}' for v in values] if kind == "json" else ["v", *map(str, values)]
        (tmp_path / f"f{n:03d}.txt").write_text("\n".join(text) + "\n")
        first = 1 if kind == "json" else 2
        wanted |= {f"@f{n:03d}.txt#{i}": v for i, v in enumerate(values, first)}
    found = opened(spark, tmp_path, format=kind, schema="v int")
    rows = found.records()
    assert {row[KEY]: row["v"] for row in rows.collect()} == wanted
    assert found.door().digest.count == len(wanted)
    tasks = rows.selectExpr("spark_partition_id() AS task").distinct().count()
    assert tasks <= FEWEST


def test_rows_of_many_files_with_different_columns_keep_their_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    wanted = {}
    for n in range(FILES):
        kinds = {"v": (pa.int32(), pa.int64(), pa.int16())[n % 3]}
        values = [n * 10 + i for i in range(n % 3 + 1)]
        columns = {name: pa.array(values, kind) for name, kind in kinds.items()}
        if n % 5 == 0:
            columns["w"] = pa.array([str(v) for v in values])
        pq.write_table(pa.table(columns), tmp_path / f"f{n:03d}.parquet")
        shown = [(v, str(v) if n % 5 == 0 else None) for v in values]
        wanted |= {f"@f{n:03d}.parquet#{i}": one for i, one in enumerate(shown, 1)}
    found = opened(spark, tmp_path, format="parquet")
    rows = found.records().collect()
    assert {row[KEY]: (row["v"], row["w"]) for row in rows} == wanted
    assert found.missing_columns == {"w": sum(w is None for _, w in wanted.values())}
