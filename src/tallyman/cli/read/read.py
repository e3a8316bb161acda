"""`tallyman read`: print rows of a dataset."""

from __future__ import annotations

from tallyman.cli.terminal.options import (
    AsJson,
    AtVersion,
    DatasetName,
    Limit,
    ProjectFolder,
    opened,
)
from tallyman.cli.terminal.output import as_json, out, table


def read(
    dataset: DatasetName,
    version: AtVersion = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Print rows of a dataset or snapshot, without Spark.

    Example:  tallyman read daily_revenue --version 6 --limit 5
    """
    found = opened(project)
    resolved, rows = found.rows(dataset, version, limit=limit)
    if json_output:
        as_json(rows)
        return
    if rows:
        table(rows, list(rows[0]))
    shown, total = len(rows), resolved.version.rows
    at = f"{resolved.dataset.name} v{resolved.version.ordinal}"
    out.print(f"{at}   {shown:,} of {total:,} rows")
