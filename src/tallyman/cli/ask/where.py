"""`tallyman where`: follow a source record to every row it reached."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.ask.walk_text import where_lines
from tallyman.cli.terminal.options import (
    AsJson,
    Master,
    ProjectFolder,
    SparkConf,
    WalkLimit,
    opened,
    pairs,
)
from tallyman.cli.terminal.output import answer, starting_spark
from tallyman.errors import UsageError


def where(
    source: Annotated[str, typer.Argument(help="A source of the pipeline.")],
    row: Annotated[
        list[str],
        typer.Argument(
            help="column=value pairs that identify the record, or @file#line if it has no key."
        ),
    ],
    run: Annotated[
        str | None, typer.Option("--run", help="Search this run instead of the current versions.")
    ] = None,
    limit: WalkLimit = 20,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Follow a source record to every row and rejection it led to.

    For each asset that read the record, show its rejections with rule, expected and actual value;
    or the filter that removed it and the reason; or the rows it is part of, and what later assets
    made of those rows. column=null matches NULL, "column='null'" the text; bytes are given in hex.

    Example:  tallyman where segments segment_id=SEG-0000530
    """
    found = opened(project, master, spark_conf).where(
        source, _record(row), run=run, limit=limit or None, starting=starting_spark
    )
    answer(found.to_json(), where_lines(found), json_output)


def _record(row: list[str]) -> dict[str, str]:
    """Parse the arguments: column=value pairs, or one place (`@file#line`)."""
    places = [item for item in row if item.startswith("@")]
    if places and len(row) > 1:
        raise UsageError(f"{places[0]} already identifies the record: leave out the rest")
    return {"@": places[0]} if places else pairs(row, "row")
