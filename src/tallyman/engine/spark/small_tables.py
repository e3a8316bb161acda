"""Small tables from the driver, through Arrow: a list of Python rows would start Python workers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

LIMITED_TEXT = re.compile(r'(ype":)"(?:var)?char\([0-9]+\)"')


def table(spark: SparkSession, names: Sequence[str], rows: Sequence[Sequence[object]]) -> DataFrame:
    """Make a table of at least one row, of types that Arrow infers."""
    columns = (list(values) for values in zip(*rows, strict=True))
    return spark.createDataFrame(pa.table(dict(zip(names, columns, strict=True))))


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Make a table without rows. Spark adds the columns: it takes nullable ones as NULL, and `char`
    and `varchar` as text only where they are written so.
    """
    nullable = StructType([StructField(field.name, field.dataType) for field in schema])
    plain = LIMITED_TEXT.sub(r'\1"string"', nullable.json())
    return spark.range(0).drop("id").to(StructType.fromJson(json.loads(plain)))
