"""`tallyman compile`: print the pipeline in its compiled form."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.domain.compiled.form import json_schema
from tallyman.domain.definition.canonical_json import canonical
from tallyman.errors import UsageError


def compile(  # noqa: A001  the name of the command
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the form instead.")
    ] = False,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            "-v",
            help="Print the stored plan of this pipeline version instead: its hash, a prefix of "
            "it, or 'active'. Reads the database, not the files.",
            show_default=False,
        ),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Print the pipeline as JSON, the form that runs and is hashed.

    Python, YAML and JSON files that declare the same pipeline give the same bytes, on one line.
    A file with these bytes is a pipeline file. Starts neither Spark nor the database, unless a
    stored version is asked for.

    Exit code 2 if the definitions have mistakes.

    Example:  tallyman compile > pipeline.json
    """
    _ = json_output  # the form is JSON already
    sys.stdout.write(_text(project, version, schema) + "\n")


def _text(project: str | None, version: str | None, schema: bool) -> str:
    if schema and version:
        raise UsageError("compile: give --schema or --version, not both")
    if schema:
        return canonical(json_schema())
    found = opened(project)
    return found.compiled() if version is None else found.pipelines.plan_of(version)
