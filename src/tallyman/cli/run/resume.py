"""`tallyman resume`: continue a run that did not finish."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NoReturn

import typer

from tallyman.cli.terminal.options import (
    RUN_HELP,
    AsJson,
    Master,
    ProjectFolder,
    SparkConf,
    opened_to_make,
)
from tallyman.cli.terminal.output import as_json, out
from tallyman.cli.terminal.progress import Progress, supervised
from tallyman.cli.terminal.result import print_result, show_result
from tallyman.domain.history.run import RunResult
from tallyman.errors import UsageError
from tallyman.project import Project


def resume(
    run: Annotated[str | None, typer.Argument(help=RUN_HELP)] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed",
            help="Continue every run with something that failed or was never made, and was not "
            "made since: those of `tallyman runs --failed`, oldest first.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="How many targets to make at once. Default: as before."),
    ] = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Continue a run that failed, was stopped, or has been approved.

    Targets that succeeded are not run again. The run keeps its id.
    """
    found = opened_to_make(project, master, spark_conf)
    if failed == (run is not None):
        raise UsageError("name one run, or give --failed")
    if run is None:
        _resume_failed(found, jobs, json_output)
    result = supervised(
        found, json_output, lambda progress: found.resume(run, jobs=jobs, listen=progress)
    )
    show_result(result, json_output)


def _resume_failed(found: Project, jobs: int | None, json_output: bool) -> NoReturn:
    names = [found.runs.by_id(row.run_id).name for row in found.runs.unfinished()]
    results: list[RunResult] = []
    for name in dict.fromkeys(names):
        resumed = partial(_resumed, found, name, jobs)
        results.append(supervised(found, json_output, resumed))
        if not json_output:
            print_result(results[-1], json_output=False)
    if json_output:
        as_json([result.to_json() for result in results])
    elif not results:
        out.print("nothing failed, and nothing waits to be made")
    raise typer.Exit(max((result.exit_code for result in results), default=0))


def _resumed(found: Project, name: str, jobs: int | None, progress: Progress) -> RunResult:
    return found.resume(name, jobs=jobs, listen=progress)
