"""`mutate` and `load`: people and programs write tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from tallyman.cli.data import DatasetName
from tallyman.cli.options import AsJson, ProjectFolder, opened, pairs
from tallyman.cli.output import as_json, out, published
from tallyman.control.publish.mutate import WrittenChange
from tallyman.domain.version.mutation import Mutation
from tallyman.errors import UsageError

Expect = Annotated[
    list[str] | None,
    typer.Option("--expect", help="table=version: refuse (exit 4) if it moved on; repeatable."),
]
Message = Annotated[str | None, typer.Option("--message", "-m", help="Why, for the history.")]


def mutate(
    file: Annotated[str, typer.Argument(help="YAML or JSON with `statements`; '-' reads stdin.")],
    expect: Expect = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Insert, update or delete rows of tables: all statements in one commit, or none.

    A later statement sees the earlier ones. Keys, NOT NULL and references are checked before
    anything is written.

    statements: [{insert: {into: person, rows: [{name: Eve, age: 31}]}},
    {update: {dataset: person, set: {age: 32}, where: "name = 'Eve'"}}]
    """
    given = _read(file)
    versions = {name: _number(text) for name, text in pairs(expect or [], "--expect").items()}
    found = opened(project).mutate(Mutation.of(given), expected_versions=versions, message=message)
    _show(found, json_output)


def load(
    table: DatasetName,
    file: Annotated[str, typer.Argument(help=".csv, .jsonl, .json or .parquet.")],
    mode: Annotated[
        str, typer.Option(help="append (new keys only), merge (by key), overwrite (all of it).")
    ] = "append",
    expect: Annotated[
        int | None, typer.Option("--expect", help="Refuse (exit 4) if it is not at this version.")
    ] = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Load a file into a table: every row of it, or nothing.

    Example:  tallyman load person people.csv --mode merge
    """
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file!r}")
    found = opened(project).load(table, file, mode=mode, expected_version=expect, message=message)
    _show(found, json_output)


def _read(file: str) -> object:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: neither YAML nor JSON: {error}") from None


def _number(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"--expect: a version is a number, not {text!r}")
    return int(text)


def _show(found: WrittenChange, json_output: bool) -> None:
    if json_output:
        as_json(found.to_json())
        return
    for name, change in found.changed.items():
        out.print(
            f"{name}   {change.rows_inserted:,} inserted   {change.rows_updated:,} updated   "
            f"{change.rows_deleted:,} deleted",
            markup=False,
        )
    out.print(published(found.commit) if found.commit else "nothing had to change", markup=False)


def register(app: typer.Typer) -> None:
    for command in (mutate, load):
        app.command()(command)
