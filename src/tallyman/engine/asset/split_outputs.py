"""The outputs of a split: the rows of an asset, each copied to the folder of one output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import Split
from tallyman.engine.evidence.kept import split_folder
from tallyman.engine.evidence.write import move_files
from tallyman.engine.expressions.column_names import HIDDEN
from tallyman.engine.expressions.columns import to_column
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.spark import small_tables
from tallyman.engine.working.working_run import OUTPUTS, outputs_in

ROUTE = f"{HIDDEN}output"


def split_of(plan: Frame) -> Split | None:
    """Return the split of a plan, which is its last step."""
    return plan.step if isinstance(plan.step, Split) else None


@dataclass(frozen=True, slots=True)
class SplitOutputs:
    """Writes the outputs of a result, from the rows in its `output` folder."""

    spark: SparkSession
    split: Split
    result: Path
    scratch: Path

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.split.outputs]

    def write(self, schema: StructType) -> None:
        """Copy each row to its output in one pass; an output without rows has a file with the
        columns."""
        rows = self.spark.read.schema(schema).parquet(str(self.result / "output"))
        aside = self.scratch / "split"
        routed = rows.withColumn(ROUTE, to_column(self.split.route, schema.names))
        write_routed(routed, aside)
        for name in self.names:
            origin = aside / f"{ROUTE}={name}"
            if not origin.exists():
                empty = small_tables.empty(self.spark, schema).coalesce(1)
                empty.write.parquet(str(origin))
            move_files(origin, self.result / "outputs" / split_folder(name))
        listed = [_listed(name) for name in self.names]
        write_json(self.result / OUTPUTS, [*outputs_in(self.result), *listed])


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
