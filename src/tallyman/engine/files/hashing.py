"""Hashing of large inputs: on a cluster every machine hashes some of the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tallyman.engine.files.listing import Hasher, InputFile, escaped, hash_here, remember
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
else:
    F = OnDemand("pyspark.sql.functions")

LARGE = 1 << 30
"""The number of bytes from which a Spark job is worthwhile."""
WHOLE = 256 << 20
"""The largest file that Spark hashes, as it reads a file whole; larger ones are hashed here."""


def hasher_for(master: str | None, spark: Callable[[], SparkSession]) -> Hasher:
    """Choose where to hash: on one machine a Spark job would read the same disk more slowly."""
    if master is None or master.startswith("local"):
        return hash_here

    def hashes(files: Sequence[InputFile]) -> list[str]:
        if sum(file.size for file in files) < LARGE:
            return hash_here(files)
        return hash_there(spark(), files)

    return hashes


def hash_there(spark: SparkSession, files: Sequence[InputFile]) -> list[str]:
    """Hash as `hash_here` does, but on the executors."""
    found: dict[str, str] = {}
    small = [escaped(file.path) for file in files if file.size <= WHOLE]
    if small:
        rows = spark.read.format("binaryFile").load(small)
        for row in rows.select("path", F.sha2("content", 256).alias("sha256")).collect():
            found[row["path"].partition(":")[2]] = row["sha256"]
            remember(row["path"].partition(":")[2], row["sha256"])
    # Hash the rest here: files that were too large, and empty ones, which Spark skips.
    left = [file for file in files if file.path not in found]
    found |= zip((file.path for file in left), hash_here(left), strict=True)
    return [found[file.path] for file in files]
