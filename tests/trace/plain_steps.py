"""What changing and adding rows means in plain Spark; `rid` says which row is which."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

RID = "rid"


def assign(rows: DataFrame, given: dict[str, str], where: str | None) -> DataFrame:
    """One after another, on rows that matched before the first."""
    rows = rows.withColumn("hit", F.coalesce(F.expr(where or "true"), F.lit(False)))
    for name, said in given.items():
        value, old = F.expr(said), F.lit(None)
        if name in rows.columns:
            value, old = value.cast(rows.schema[name].dataType), F.col(name)
        rows = rows.withColumn(name, F.when(F.col("hit"), value).otherwise(old))
    return rows.drop("hit")


def with_rows(rows: DataFrame, added: DataFrame) -> DataFrame:
    """Rows behind those there are, in the types of these; what they lack is NULL."""
    there = {f.name: f.dataType for f in rows.schema}
    kinds = [there.get(f.name, f.dataType) for f in added.schema]
    chosen = [F.col(n).cast(k).alias(n) for n, k in zip(added.columns, kinds, strict=True)]
    return rows.unionByName(added.select(*chosen), allowMissingColumns=True)
