"""The outputs of a split: the rows of an asset, each copied to the folder of one output."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tallyman.domain.definition.step import Split
from tallyman.engine.asset.work import Folders
from tallyman.engine.evidence.kept import split_folder
from tallyman.engine.evidence.write import move_files
from tallyman.engine.expressions.column_names import HIDDEN
from tallyman.engine.expressions.columns import to_column
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.spark import small_tables
from tallyman.engine.working.working_run import OUTPUTS, outputs_in

ROUTE = f"{HIDDEN}output"


def write_outputs(spark: SparkSession, split: Split, folders: Folders, schema: StructType) -> None:
    """Copy each row of a result to its output in one pass; an output without rows has a file with
    the columns."""
    result, aside = folders.result, folders.scratch / "split"
    rows = spark.read.schema(schema).parquet(str(folders.output))
    write_routed(rows.withColumn(ROUTE, to_column(split.route, schema.names)), aside)
    names = [name for name, _ in split.outputs]
    for name in names:
        origin = aside / f"{ROUTE}={name}"
        if not origin.exists():
            empty = small_tables.empty(spark, schema).coalesce(1)
            empty.write.parquet(str(origin))
        move_files(origin, result / "outputs" / split_folder(name))
    write_json(result / OUTPUTS, [*outputs_in(result), *map(_listed, names)])


def write_routed(rows: DataFrame, folder: Path) -> None:
    rows.write.partitionBy(ROUTE).parquet(str(folder))


def _listed(name: str) -> dict[str, object]:
    return {
        "id": split_folder(name),
        "path": None,
        "format": "parquet",
        "single_file": False,
        "register_as": name,
    }
