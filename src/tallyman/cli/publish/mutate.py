"""`tallyman mutate`: insert, update and delete rows of tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from tallyman.cli.terminal.options import AsJson, Message, ProjectFolder, opened, pairs
from tallyman.cli.terminal.result import print_change
from tallyman.domain.version.mutation import Mutation
from tallyman.errors import UsageError

Expect = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        help="table=version: refuse (exit 4) if the table is not at this version; repeatable.",
    ),
]


def mutate(
    file: Annotated[
        str, typer.Argument(help="A YAML or JSON file with `statements`; '-' reads stdin.")
    ],
    expect: Expect = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Insert, update and delete rows of tables in one commit.

    All statements take effect, or none. Each statement sees the changes of the ones before it.
    Keys, NOT NULL and references are checked before anything is written.

    statements: [{insert: {into: person, rows: [{name: Eve, age: 31}]}},
    {update: {dataset: person, set: {age: 32}, where: "name = 'Eve'"}}]
    """
    given = _read(file)
    versions = {name: _number(text) for name, text in pairs(expect or [], "--expect").items()}
    found = opened(project).mutate(Mutation.of(given), expected_versions=versions, message=message)
    print_change(found, json_output)


def _read(file: str) -> object:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is neither YAML nor JSON: {error}") from None


def _number(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"--expect: a version must be a number, not {text!r}")
    return int(text)
