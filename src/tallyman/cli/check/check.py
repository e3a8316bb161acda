"""`tallyman check`: find every mistake in the definitions, without a run."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import (
    AsJson,
    Master,
    ProjectFolder,
    Selection,
    SparkConf,
    opened,
)
from tallyman.cli.terminal.output import as_json, counted, err, out
from tallyman.control.pipeline.mistakes import DefinitionCheck
from tallyman.errors import Problem, UsageError
from tallyman.settings import FILE

MISTAKES = 2
"""The exit code if there are any."""
ABOUT_SHRINKING = (
    "a source with less than half of its earlier records halts a run; where that is normal, "
    'declare on_shrink="warn" or "allow"'
)


def check(
    selection: Selection = None,
    no_spark: Annotated[
        bool,
        typer.Option("--no-spark", help="Leave out what needs Spark: columns and types."),
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Find every mistake in the definitions, without a run.

    Checks settings, files, tables and assets, and lists all mistakes at once with file and line.
    Reads no data, except the footers of Parquet files without a declared schema. Writes nothing
    but Spark's log, and does not use the database. Spark starts to analyze columns and types.

    Exit code 2 if there are mistakes.

    Example:  tallyman check --json
    """
    found = _checked(project, master, spark_conf, selection or [], with_spark=not no_spark)
    if json_output:
        as_json(
            {
                "ok": not found.problems,
                "problems": [_facts(problem) for problem in found.problems],
                "checked": found.checked,
                "not_checked": found.not_checked,
                "spark": found.with_spark,
            }
        )
    else:
        _print(found)
    raise typer.Exit(MISTAKES if found.problems else 0)


def _checked(
    project: str | None,
    master: str | None,
    conf: list[str] | None,
    terms: list[str],
    *,
    with_spark: bool,
) -> DefinitionCheck:
    try:
        found = opened(project, master, conf)
    except UsageError as error:
        if FILE not in str(error):
            raise
        return DefinitionCheck(problems=(_in_settings(str(error)),))
    return found.check(terms, with_spark=with_spark)


def _in_settings(message: str) -> Problem:
    """Make a problem of an error about tallyman.yaml, without the path of this machine."""
    said = re.sub(rf"^\S*{re.escape(FILE)}:? ?", "", message)
    line = re.search(r"\bline (\d+)", said)
    return Problem(FILE, said, file=FILE, line=int(line[1]) if line else None)


def _facts(problem: Problem) -> dict[str, Any]:
    at = f"{problem.file}:{problem.line}" if problem.line else str(problem.file)
    return {
        "file": problem.file,
        "line": problem.line,
        "path": problem.where.removeprefix(at).removeprefix(": "),
        "message": problem.message,
        "nearest": problem.nearest,
    }


def _print(found: DefinitionCheck) -> None:
    for problem in found.problems:
        at = f"{problem.file}:{problem.line}: " if problem.line else ""
        named = problem.file is not None and problem.where.startswith(problem.file)
        out.print(str(problem) if named else f"{at}{problem}")
    for name, reason in found.not_checked.items():
        err.print(f"not checked: {name}: {reason}", style="yellow")
    if not found.with_spark and found.checked:
        err.print("columns and types were not checked: Spark was not started")
    count = counted(len(found.problems), "mistake")
    done = f"{counted(len(found.checked), 'definition')} checked"
    if found.checked and not found.problems:
        err.print(ABOUT_SHRINKING)
    out.print(f"{count if found.problems else 'no mistakes'}   {done}")
