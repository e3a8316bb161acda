"""A session that is up, with other settings for a while."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tallyman.engine.spark.lent_session import forget, lent
from tallyman.engine.spark.session import is_up

SHUFFLE, CODEC = "spark.sql.shuffle.partitions", "spark.sql.parquet.compression.codec"
WAREHOUSE, MEMORY = "spark.sql.warehouse.dir", "spark.driver.memory"
SECRET = "spark.hadoop.fs.s3a.secret.key"
NAMES = (SHUFFLE, CODEC, WAREHOUSE, MEMORY, SECRET)


def test_what_can_be_set_is_set_and_the_rest_is_told(spark: SparkSession) -> None:
    assert is_up(None)
    before = {name: spark.conf.get(name, None) for name in NAMES}
    usual = {CODEC: "snappy", MEMORY: str(before[MEMORY])}
    wanted = {SHUFFLE: "7", WAREHOUSE: "elsewhere", MEMORY: "9g", SECRET: "hush"}
    with lent(spark, wanted, usual) as refused:
        assert spark.conf.get(SHUFFLE) == "7"
        assert spark.conf.get(CODEC, None) is None  # the run did not have it
        assert [told.partition(":")[0] for told in refused] == [MEMORY, SECRET, WAREHOUSE]
        assert refused[0] == f"{MEMORY}: 9g then, {before[MEMORY]} now"
        assert "hush" not in str(refused)
    assert {name: spark.conf.get(name, None) for name in NAMES} == before


def test_an_error_meanwhile_leaves_the_session_as_it_was(spark: SparkSession) -> None:
    before = spark.conf.get(SHUFFLE, None)
    with pytest.raises(RuntimeError), lent(spark, {SHUFFLE: "7"}, {}):
        raise RuntimeError
    assert spark.conf.get(SHUFFLE, None) == before


def test_what_is_forgotten_is_as_spark_has_it_and_what_cannot_be_is_let_be(
    spark: SparkSession,
) -> None:
    name, before = "spark.sql.files.maxPartitionBytes", spark.conf.get(MEMORY, None)
    spark.conf.set(name, "700")
    forget(spark, [name, MEMORY, WAREHOUSE])
    assert spark.conf.get(name, None) is None
    assert spark.conf.get(MEMORY, None) == before
