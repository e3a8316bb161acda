"""`tallyman resume`: continue a run that did not finish."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, Master, ProjectFolder, RunName, SparkConf, opened
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import show_result


def resume(
    run: RunName,
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
    found = opened(project, master, spark_conf)
    result = supervised(
        found, json_output, lambda progress: found.resume(run, jobs=jobs, listen=progress)
    )
    show_result(result, json_output)


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(resume)
