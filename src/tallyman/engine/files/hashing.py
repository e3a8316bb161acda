"""Hashing large inputs where they lie: on a cluster every machine hashes some of the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tallyman.engine.files.listing import Hasher, InputFile, escaped, hash_here, remember

LARGE = 1 << 30
"""Bytes from which it is worth a Spark job."""
WHOLE = 256 << 20
"""Spark hands a file to the hash whole; larger ones are hashed here, piece by piece."""


def hasher_for(master: str | None, spark: Callable[[], SparkSession]) -> Hasher:
    """On one machine a Spark job would read the same disk more slowly."""
    if master is None or master.startswith("local"):
        return hash_here

    def hashes(files: Sequence[InputFile]) -> list[str]:
        if sum(file.size for file in files) < LARGE:
            return hash_here(files)
        return hash_there(spark(), files)

    return hashes


def hash_there(spark: SparkSession, files: Sequence[InputFile]) -> list[str]:
    """The same as `hash_here`, by the executors."""
    found: dict[str, str] = {}
    small = [escaped(file.path) for file in files if file.size <= WHOLE]
    if small:
        rows = spark.read.format("binaryFile").load(small)
        for row in rows.select("path", F.sha2("content", 256).alias("sha256")).collect():
            found[row["path"].partition(":")[2]] = row["sha256"]
            remember(row["path"].partition(":")[2], row["sha256"])
    # What was too large, and what Spark passes over because there is nothing in it.
    left = [file for file in files if file.path not in found]
    found |= zip((file.path for file in left), hash_here(left), strict=True)
    return [found[file.path] for file in files]
