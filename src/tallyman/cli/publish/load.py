"""`tallyman load`: load a file into a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, Message, ProjectFolder, opened
from tallyman.cli.terminal.result import print_change
from tallyman.errors import UsageError


def load(
    table: Annotated[str, typer.Argument(help="The table to load into.")],
    file: Annotated[str, typer.Argument(help="A .csv, .jsonl, .json or .parquet file.")],
    mode: Annotated[
        str,
        typer.Option(
            help="append: add rows, all keys must be new. merge: insert or update by key. "
            "overwrite: replace all rows."
        ),
    ] = "append",
    expect: Annotated[
        int | None,
        typer.Option("--expect", help="Refuse (exit 4) if the table is not at this version."),
    ] = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Load a file into a table: all of it or nothing.

    Example:  tallyman load person people.csv --mode merge
    """
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file!r}")
    found = opened(project).load(table, file, mode=mode, expected_version=expect, message=message)
    print_change(found, json_output)
