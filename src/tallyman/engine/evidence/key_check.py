"""The key of an asset: the asset fails if two rows of its output have the same key.

NULL is a value like any other here, as in groupBy: one row without a value differs from all others,
two such rows are equal. Their number is reported, see `null_values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructType

from tallyman.domain.account.ledger import Ledger
from tallyman.domain.definition.distinct import distinguished_by
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.engine.evidence.content import row_hashes
from tallyman.engine.expressions.column_names import SYSTEM, literal, quoted
from tallyman.engine.expressions.columns import col
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files import duck, parquet
from tallyman.engine.spark.failure import failure_of, said_plainly
from tallyman.errors import KeysRepeat, StepFailed

EXAMPLES = 5
ROWS = 40_000_000
"""The largest output whose keys are compared in this process: six seconds of processor time."""
MEMORY = "256MB"
"""The memory for that, whatever the number of rows; the rest goes to files, 24 bytes a row."""
COMPARABLE = {"string", "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp"}
NEW = "_tm_new"


@dataclass(frozen=True, slots=True)
class Repeats:
    keys: int
    rows: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyedOutput:
    """The rows of an output in their place, without our column."""

    spark: SparkSession
    folder: Path
    schema: StructType
    scratch: Path
    """Where hashes of keys may be written that do not fit into memory."""

    def rows(self) -> DataFrame:
        return self.spark.read.schema(self.schema).parquet(str(self.folder)).drop(SYSTEM)

    def surely_differ(self, key: Sequence[str]) -> bool:
        """True if this process finds that no two rows have the same key: hashes of 64 bits differ.
        If two are equal, the keys may still differ.
        """
        files = sorted(self.folder.glob("*.parquet"))
        if not all(comparable(self.schema[name].dataType) for name in key):
            return False
        if not files or not parquet.few(parquet.rows_in(files), ROWS):
            return False
        names = ", ".join(map(duck.quoted, key))
        found = ", ".join(duck.text(str(file)) for file in files)
        rows = f"read_parquet([{found}], hive_partitioning = false)"
        hashes = f"SELECT hash({names}) AS hashed FROM {rows}"
        several = f"SELECT 1 FROM ({hashes}) GROUP BY hashed HAVING count(*) > 1 LIMIT 1"
        limits = {"memory_limit": MEMORY, "temp_directory": str(self.scratch / "keys")}
        try:
            with duck.connect(limits) as here:
                return not here.execute(several).fetchall()
        except duckdb.Error:  # such as text that is not UTF-8: Spark compares bytes
            return False


def comparable(kind: DataType) -> bool:
    """True if values are equal here exactly if they are equal in Spark."""
    return isinstance(kind, DecimalType) or kind.simpleString() in COMPARABLE


@dataclass
class KeyCheck:
    """The check of one target. `redaction` decides which values of a key may be shown; `stays` are
    files of rows to which the output is added.
    """

    asset: Asset
    plan: Frame
    pool: ThreadPoolExecutor
    redaction: Redaction
    stays: Sequence[str] = ()
    _rows: KeyedOutput | None = field(default=None, init=False)
    _counted: Future[Repeats | None] | None = field(default=None, init=False)

    @property
    def needed(self) -> bool:
        """False if no check is declared, or if the key is unique because of how the rows are
        made.
        """
        asset = self.asset
        if not asset.key or not asset.unique:
            return False
        if asset.update_strategy == "append":
            # Of rows with one unique_key only the first is taken, and the key has all its columns.
            return False
        apart = None if self.stays else distinguished_by(self.plan)
        return apart is None or not apart <= {name.lower() for name in asset.key}

    def begin(self, rows: KeyedOutput, kept: Sequence[str], few: bool) -> None:
        """Start counting in the background. `kept` are columns that hold the key of the only input,
        row by row; if there are `few` records, the door counts their keys anyway.
        """
        if not self.needed:
            return
        self._rows = rows
        if self.stays or not (few and kept and set(kept) <= set(self.asset.key)):
            self._counted = self.pool.submit(self._count)

    def refuse_repeated(self, ledger: Ledger) -> None:
        """Raise KeysRepeat if two rows have the same key."""
        if self._rows is None or (self._counted is None and _all_differ(ledger)):
            return
        try:
            found = self._counted.result() if self._counted is not None else self._count()
        except PySparkException as error:
            found = failure_of(error, said_plainly)
            reason = f"counting its keys: {found.reason}"
            raise StepFailed(self.asset.name, reason, advice=found.advice) from error
        if found is not None:
            key = self.asset.key
            raise KeysRepeat(self.asset.name, key, found.keys, found.rows, found.examples)

    def _count(self) -> Repeats | None:
        assert self._rows is not None
        if not self.stays and self._rows.surely_differ(self.asset.key):
            return None
        keys = self._rows.rows().select(*map(col, self.asset.key), F.lit(True).alias(NEW))
        if self.stays:
            there = keys.sparkSession.read.parquet(*self.stays)
            there = there.select(*map(col, self.asset.key), F.lit(False).alias(NEW))
            keys = keys.unionByName(there)
        return _repeated(keys, self.asset.key, self.redaction)


def _all_differ(ledger: Ledger) -> bool:
    return all(one.duplicate_keys == 0 and not one.null_keys for one in ledger.inputs)


def _repeated(keys: DataFrame, key: Sequence[str], redaction: Redaction) -> Repeats | None:
    """Find repeated keys with one shuffle of hashes; compare keys only if two hashes are equal."""
    counts = (F.count(F.lit(1)).alias("_tm_n"), F.bool_or(NEW).alias(NEW))
    # Existing rows may be older than the check: only a key of a new row is a mistake.
    several = (F.col("_tm_n") > 1) & F.col(NEW)
    hashed = row_hashes(keys.drop(NEW), seeds=(0,))
    if keys.groupBy(*hashed).agg(*counts).where(several).isEmpty():
        return None
    again = keys.groupBy(*map(col, key)).agg(*counts).where(several)
    found = again.agg(F.count(F.lit(1)).alias("keys"), F.sum("_tm_n").alias("rows")).first()
    if found is None or not found["keys"]:
        return None
    shown = ", ".join(f"{literal(n)}, {redaction.value(n, quoted(n))}" for n in key)
    text = f"to_json(named_struct({shown}), map('ignoreNullFields', 'false')) AS text"
    first = again.orderBy(*map(col, key)).limit(EXAMPLES).selectExpr(text).collect()
    return Repeats(found["keys"], found["rows"], tuple(row["text"] for row in first))


def null_values(folder: Path, key: Sequence[str]) -> dict[str, int]:
    """Count the rows without a value, for each column of the key, from an output's footers."""
    counts = dict.fromkeys(key, 0)
    for file in sorted(folder.glob("*.parquet")):
        footer = pq.read_metadata(file)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        for column in (group.column(n) for group in groups for n in range(group.num_columns)):
            if column.path_in_schema in counts and column.statistics is not None:
                counts[column.path_in_schema] += column.statistics.null_count or 0
    return {name: count for name, count in counts.items() if count}
