"""`why` and `where`: a row back to its records and files, a record forward to all it reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from tallyman.cli.data import AtVersion
from tallyman.cli.options import (
    AsJson,
    Master,
    Partition,
    ProjectFolder,
    SparkConf,
    opened,
    pairs,
)
from tallyman.cli.output import as_json, err, out
from tallyman.cli.tree import where_lines, why_lines
from tallyman.domain.history.walk import Hop
from tallyman.errors import UsageError

Limit = Annotated[
    int, typer.Option(min=0, help="Show at most this many rows and records; 0 shows all.")
]
Row = Annotated[list[str], typer.Argument(help="column=value, as many as tell the row.")]


def why(
    dataset: Annotated[str, typer.Argument(help="A dataset, or the asset that makes it.")],
    row: Row,
    version: AtVersion = None,
    partition: Partition = None,
    limit: Limit = 20,
    keys: Annotated[
        bool, typer.Option("--keys", help="List every source key behind the row, no records.")
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Why a row is as it is: the steps, runs, versions, records and files behind it.

    Walks back through every asset, in the versions that the runs really read, to the records of
    sources with their file and line. Values are compared by the column's type; column=null asks
    for NULL. Spark starts only for a run that kept digests instead of keys: it is replayed, and
    its digests must agree.

    Example:  tallyman why daily_revenue flight_date=2024-01-15 --limit 3
    """
    found = opened(project, master, spark_conf).why(
        dataset,
        pairs(row, "row"),
        version=version,
        partition=partition,
        limit=limit or None,
        keys=keys,
    )
    if json_output:
        as_json(found.to_json())
        return
    if keys:
        listed = [key for hop in found.hops for key in _keys(hop)]
        for key in listed:
            print(key)
        err.print(f"{len(listed):,} source records", markup=False)
        return
    for line in why_lines(found):
        out.print(line, markup=False)


def _keys(hop: Hop) -> Iterator[str]:
    for origin in hop.inputs:
        yield from origin.keys
        for further in origin.hops:
            yield from _keys(further)


def where(
    source: Annotated[str, typer.Argument(help="A source of the pipeline.")],
    row: Annotated[
        list[str],
        typer.Argument(help="column=value, or @file#line for a record without a key."),
    ],
    run: Annotated[
        str | None, typer.Option("--run", help="In this run, instead of the current versions.")
    ] = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Where a source record went: every dataset, version and row, or the step that ended it.

    For each asset that read it: its rejections with rule, expected and actual; or the filter and
    its reason; or the rows it is in, and what became of them in the assets after that.

    Example:  tallyman where segments segment_id=SEG-0000530
    """
    found = opened(project, master, spark_conf).where(
        source, _record(row), run=run, limit=limit or None
    )
    if json_output:
        as_json(found.to_json())
        return
    for line in where_lines(found):
        out.print(line, markup=False)


def _record(row: list[str]) -> dict[str, str]:
    """A record without a key is told by its place."""
    places = [item for item in row if item.startswith("@")]
    if places and len(row) > 1:
        raise UsageError(f"{places[0]} tells the record by itself: leave the rest out")
    return {"@": places[0]} if places else pairs(row, "row")


def register(app: typer.Typer) -> None:
    for command in (why, where):
        app.command()(command)
