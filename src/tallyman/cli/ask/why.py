"""`tallyman why`: follow a row back to its records and files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from tallyman.cli.ask.walk_text import why_lines
from tallyman.cli.terminal.options import (
    AsJson,
    AtVersion,
    Master,
    Partition,
    ProjectFolder,
    SparkConf,
    WalkLimit,
    opened,
    pairs,
)
from tallyman.cli.terminal.output import answer, err, starting_spark
from tallyman.domain.history.walk import Hop

Row = Annotated[
    list[str],
    typer.Argument(
        help="column=value pairs that identify the row; null is NULL, 'null' is the text."
    ),
]


def why(
    dataset: Annotated[str, typer.Argument(help="A dataset, or the asset that makes it.")],
    row: Row,
    version: AtVersion = None,
    partition: Partition = None,
    limit: WalkLimit = 20,
    keys: Annotated[
        bool, typer.Option("--keys", help="List only the source keys that the row came from.")
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Explain a row: the steps, runs, records and files it came from.

    Follow the row back through every asset, in the versions that the runs read, to the source
    records with their file and line. Values are compared by the column's type; column=null matches
    NULL, "column='null'" the text, and bytes are given in hex. Spark starts, and a line says why,
    only if a run stored digests instead of keys (they are recomputed, and must match), or if a join
    cannot be followed by its columns.

    Example:  tallyman why daily_revenue flight_date=2024-01-15 --limit 3
    """
    found = opened(project, master, spark_conf).why(
        dataset,
        pairs(row, "row"),
        version=version,
        partition=partition,
        limit=limit or None,
        keys=keys,
        starting=starting_spark,
    )
    if keys and not json_output:
        listed = [key for hop in found.hops for key in _keys(hop)]
        for key in listed:
            print(key)
        err.print(f"{len(listed):,} source records")
        return
    answer(found.to_json(), why_lines(found), json_output)


def _keys(hop: Hop) -> Iterator[str]:
    for origin in hop.inputs:
        yield from origin.keys
        for further in origin.hops:
            yield from _keys(further)
