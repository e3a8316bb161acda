"""How many tasks read an input: many small files are read in few tasks."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tallyman.engine.files.listing import InputFiles

MANY = 64
"""The number of files from which tasks are combined."""
FEWEST = 8
BYTES = 64 << 20
"""The size of the files that one task reads, if there are many."""


def in_few_tasks(rows: DataFrame, files: InputFiles) -> DataFrame:
    """Combine the tasks that read many small files. Spark reads 32 of them in a task, and each task
    writes files of its own: for 3,000 files of a line, that takes most of the time.
    """
    if len(files.files) < MANY:
        return rows
    return rows.coalesce(max(FEWEST, files.bytes // BYTES + 1))
