"""`tallyman run` and `tallyman demo`: a line per asset while working, the tally at the end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status as Spinner

from tallyman.cli.demo_data import write_airline
from tallyman.cli.options import AsJson, Master, ProjectFolder, SparkConf, opened
from tallyman.cli.output import as_json, err, interactive, out, tally
from tallyman.domain.run import AssetResult, RunResult, Status
from tallyman.project import Project

PHASES = {
    "opening": "opening inputs",
    "evaluating": "evaluating",
    "settling": "writing evidence",
    "proving": "balancing the ledger",
}


class Progress:
    """One line per finished asset; on a terminal also what is happening now."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.spinner: Spinner | None = None

    def begin(self) -> None:
        self._say("starting Spark")

    def __call__(self, asset: str, phase: str, result: AssetResult | None) -> None:
        if result is None:
            self._say(f"{asset}: {PHASES.get(phase, phase)}")
        elif not self.quiet:
            self.stop()
            out.print(tally(result), markup=False)

    def _say(self, text: str) -> None:
        if self.quiet or not interactive():
            return
        if self.spinner is None:
            self.spinner = err.status(text)
            self.spinner.start()
        self.spinner.update(text)

    def stop(self) -> None:
        if self.spinner is not None:
            self.spinner.stop()
            self.spinner = None


def execute(
    project: Project,
    selection: list[str],
    *,
    evidence: str | None = None,
    run_id: str | None = None,
    thresholds: str | None = None,
    json_output: bool = False,
) -> RunResult:
    """Run with progress; Ctrl-C stops Spark and says what was left."""
    progress = Progress(quiet=json_output)
    before = _folders(project)
    try:
        progress.begin()
        return project.run(
            selection, evidence=evidence, run_id=run_id, thresholds=thresholds, listen=progress
        )
    except KeyboardInterrupt:
        progress.stop()
        left = sorted(_folders(project) - before)
        err.print("interrupted: nothing was published.")
        for folder in left:
            err.print(f"left behind: {folder} (unfinished; safe to delete)", markup=False)
        sys.stderr.flush()
        os._exit(130)  # Spark's threads may hang in a half-done job; nothing of ours is pending
    finally:
        progress.stop()


def _folders(project: Project) -> set[str]:
    runs = project.settings.runs_folder
    return {str(p.relative_to(project.settings.home)) for p in runs.glob("*_*_*")}


def show_result(result: RunResult, json_output: bool) -> None:
    if json_output:
        as_json(result.to_json())
    else:
        for made in result.assets:
            if made.error:
                err.print(f"{made.name}: {made.error['message']}", style="red", markup=False)
                if made.error.get("hint"):
                    err.print(f"  {made.error['hint']}", markup=False)
            elif made.records_in == 0:
                err.print(f"warning: {made.name} read no records", style="yellow", markup=False)
        balanced = result.status is Status.SUCCESS
        verdict = "balanced" if balanced else result.status.value
        out.print(f"{verdict}   run {result.run_id}   {result.folder}", markup=False)
        if any(made.rejections for made in result.assets):
            out.print("rejections: tallyman rejections ls latest", markup=False)
    raise typer.Exit(result.exit_code)


def run(
    selection: Annotated[
        list[str] | None,
        typer.Argument(
            help="Assets: x, +x (with upstream), x+ (with downstream), tag:t. Default: all."
        ),
    ] = None,
    evidence: Annotated[
        str | None, typer.Option(help="keys (every key is stored) or digest (cheaper).")
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(help="default, strict, permissive, or absolute=N,percentage=P."),
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Your own name for the run.")] = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Run assets, account for every record, and publish what balances."""
    found = opened(project, master, spark_conf)
    result = execute(
        found,
        selection or [],
        evidence=evidence,
        run_id=run_id,
        thresholds=thresholds,
        json_output=json_output,
    )
    show_result(result, json_output)


def demo(
    folder: Annotated[str, typer.Argument(help="Where to put the project.")] = "airline-demo",
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Make the airline example (349,660 records, some of them broken) and run it."""
    place = Path(folder)
    if not (place / "tallyman.yaml").exists():
        if not json_output:
            out.print(f"writing 349,660 booking segments to {place}/data", markup=False)
        write_airline(place)
    result = execute(opened(str(place), master, spark_conf), [], json_output=json_output)
    if not json_output:
        out.print(
            f"look around:  cd {place} && tallyman show latest && tallyman rejections ls latest && "
            "tallyman sources latest daily_revenue flight_date=2024-01-15",
            markup=False,
        )
    show_result(result, json_output)


def register(app: typer.Typer) -> None:
    app.command()(run)
    app.command()(demo)
