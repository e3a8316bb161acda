"""Small tables from the driver, through Arrow: a list of Python rows would start Python workers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

LIMITED_TEXT = re.compile(r'(ype":)"(?:var)?char\([0-9]+\)"')
SPARK_NAMES = {"int32": "int", "int64": "bigint", "bool": "boolean"}


def table(
    spark: SparkSession, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> DataFrame:
    """Make a table. `columns` are "name type" with Arrow's names of types, such as "rule int32"."""
    names = [column.split()[0] for column in columns]
    kinds = [pa.type_for_alias(column.split()[1]) for column in columns]
    listed = list(rows)
    if not listed:  # Spark Connect cannot infer types without rows
        typed = [F.lit(None).cast(SPARK_NAMES.get(str(k), str(k))) for k in kinds]
        return spark.range(0).select(*(t.alias(n) for t, n in zip(typed, names, strict=True)))
    arrays = [pa.array([row[i] for row in listed], kind) for i, kind in enumerate(kinds)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=names))


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Make a table without rows. Spark adds the columns: it takes nullable ones as NULL, and `char`
    and `varchar` as text only where they are written so.
    """
    nullable = StructType([StructField(field.name, field.dataType) for field in schema])
    plain = LIMITED_TEXT.sub(r'\1"string"', nullable.json())
    return spark.range(0).drop("id").to(StructType.fromJson(json.loads(plain)))
