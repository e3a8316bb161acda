"""Proof on keys: what stood at the door against what the evidence says, with multiplicity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tallyman.domain.ledger import Discrepancy
from tallyman.engine.columns import KEY, SYSTEM, col
from tallyman.engine.source import Input, key_text
from tallyman.engine.tables import table

SAMPLES = 100


def compare_keys(inputs: Sequence[Input], ledger: Mapping[str, Any], folder: Path) -> Discrepancy:
    """One shuffle of keys: how often each came in, and how often it was accounted for."""
    spark = inputs[0].spark
    came = reduce(DataFrame.unionAll, [source.keys() for source in inputs])
    met = accounted_keys(spark, ledger, folder)
    both = came.select(KEY, F.lit(1).alias("came"), F.lit(0).alias("met")).unionAll(
        met.select(KEY, F.lit(0).alias("came"), F.lit(1).alias("met"))
    )
    counted = both.groupBy(KEY).agg(F.sum("came").alias("came"), F.sum("met").alias("met"))
    wrong = counted.where("came <> met").select(
        KEY,
        F.expr("greatest(came - met, 0)").alias("missing"),
        F.expr("if(came = 0, met, 0)").alias("extra"),
        F.expr("if(came > 0, greatest(met - came, 0), 0)").alias("duplicate"),
    )
    # Few rows at worst a page of them: counts are summed by Spark, names are capped.
    kinds = ("missing", "extra", "duplicate")
    row = wrong.agg(*(F.coalesce(F.sum(k), F.lit(0)).alias(k) for k in kinds)).first()
    assert row is not None
    samples: dict[str, list[str]] = {}
    for kind in kinds:
        named = (
            wrong.where(f"{kind} > 0").select(KEY).orderBy(KEY).limit(SAMPLES)
            if row[kind]
            else None
        )
        samples[kind] = [r[KEY] for r in named.collect()] if named is not None else []
    return Discrepancy(**{k: int(row[k]) for k in kinds}, samples=samples)


def accounted_keys(spark: SparkSession, ledger: Mapping[str, Any], folder: Path) -> DataFrame:
    """Every key that some partition of the ledger claims, as often as it is claimed."""
    found = [table(spark, [f"{KEY} string"], [])]
    found += [_claimed(spark, p, folder) for p in ledger["output_accounting"]["partitions"]]
    return reduce(DataFrame.unionAll, found)


def _claimed(spark: SparkSession, partition: Mapping[str, Any], folder: Path) -> DataFrame:
    place, kind = folder / partition["adjoint_location"], partition["adjoint_type"]
    suffix = "*.jsonl" if kind == "ErrorRecords" else "*.parquet"
    files = [str(p) for p in ([place] if place.is_file() else sorted(place.rglob(suffix)))]
    if not files:
        return table(spark, [f"{KEY} string"], [])
    if kind == "ErrorRecords":
        return _rejected_keys(spark, files)
    rows = spark.read.parquet(*files)
    if kind == "ParentChildMetadata":
        # Every parent has exactly one first child; two parents with one key have two.
        first = F.col("child_key") == F.concat("parent_key", F.lit("/0"))
        return rows.where(first).select(F.col("parent_key").alias(KEY))
    if kind == "PassThrough":
        own = [F.col(f"{SYSTEM}.key")]
        if partition.get("key_columns"):
            own.append(key_text(partition["key_columns"]))
        if "step" in rows.select(f"{SYSTEM}.*").columns:
            rows = rows.where(f"{SYSTEM}.step IS NULL")  # the others are rows of no record
        return rows.select(F.coalesce(*own).alias(KEY))
    return rows.select(col("source_key").alias(KEY))


def _rejected_keys(spark: SparkSession, files: list[str]) -> DataFrame:
    """A record with several rejections has one fate; two records with one key have two."""
    schema = (
        "source_key string, error_type string, morphism_path string, actual string, "
        "context map<string,string>"
    )
    rows = spark.read.schema(schema).json(files).where("context['level'] IS NULL")
    each = rows.groupBy("source_key", "error_type", "morphism_path").count()
    copies = each.groupBy("source_key").agg(F.max("count").alias("n"))
    again = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col("n"))).alias("_tm_copy")
    return copies.select(F.col("source_key").alias(KEY), again).select(KEY)
