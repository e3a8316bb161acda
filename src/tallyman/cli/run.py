"""`run`, `backfill`, `resume`, `cancel`, `demo`: a line per asset, the tally at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.status import Status as Spinner

from tallyman.cli.demo_data import write_airline
from tallyman.cli.options import (
    AsJson,
    Jobs,
    Master,
    Partition,
    ProjectFolder,
    RunName,
    SparkConf,
    opened,
)
from tallyman.cli.output import as_json, err, interactive, next_steps, out, published, tally
from tallyman.domain.history.run import AssetResult, RunResult, Status
from tallyman.project import Project

T = TypeVar("T")
PHASES = {
    "opening": "looking at its inputs",
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
        self._say("looking at what has changed")

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


def supervised(project: Project, json_output: bool, work: Callable[[Progress], T]) -> T:
    """Work with progress; Ctrl-C stops Spark and says what was left."""
    progress = Progress(quiet=json_output)
    try:
        progress.begin()
        return work(progress)
    except KeyboardInterrupt:
        progress.stop()
        err.print("interrupted: nothing more was published. What was finished stays.")
        for run in project.runs(limit=1):
            err.print(f"go on with it:  tallyman resume {run.name}", markup=False)
        sys.stderr.flush()
        project.close()
        os._exit(130)  # Spark's threads may hang in a half-done job; nothing of ours is pending
    finally:
        progress.stop()


def show_result(result: RunResult, json_output: bool) -> NoReturn:
    tell_result(result, json_output)
    raise typer.Exit(result.exit_code)


def tell_result(result: RunResult, json_output: bool) -> None:
    if json_output:
        as_json(result.to_json())
    else:
        for made in result.assets:
            if made.error and made.status is not Status.PENDING:
                err.print(f"{made.name}: {made.error['message']}", style="red", markup=False)
                if made.error.get("hint"):
                    err.print(f"  {made.error['hint']}", markup=False)
            elif made.records_in == 0 and made.status is Status.SUCCESS:
                err.print(f"warning: {made.name} read no records", style="yellow", markup=False)
            for column, count in made.null_keys.items():
                note = f"warning: {made.name}: {column}, of its key, is NULL in {count:,} row(s)"
                err.print(note, style="yellow", markup=False)
        done = result.status is Status.SUCCESS
        ran = any(made.status is Status.SUCCESS for made in result.assets)
        verdict = result.status.value
        if done:
            verdict = "balanced" if ran else ("reused" if result.commit else "unchanged")
        if result.commit:
            out.print(published(result.commit), markup=False)
        out.print(f"{verdict}   run {result.run_id}   {result.folder}", markup=False)
        for line in next_steps(result):
            out.print(line, markup=False)
        if any(made.rejections for made in result.assets):
            out.print("rejections: tallyman rejections ls latest", markup=False)
        for note in result.notes:
            err.print(note, style="yellow", markup=False)


Selection = Annotated[
    list[str] | None,
    typer.Argument(
        help="Assets: x, +x (with upstream), x+ (with downstream), tag:t, state:modified. "
        "Default: all."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Run the named assets even if nothing changed.")
]


def run(
    selection: Selection = None,
    partition: Partition = None,
    force: Force = False,
    jobs: Jobs = 1,
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
    """Run assets, account for every record, and publish what balances.

    What has not changed since its last success is skipped: same definition, same inputs.
    """
    found = opened(project, master, spark_conf)
    result = supervised(
        found,
        json_output,
        lambda progress: found.run(
            selection or [],
            partition=partition,
            force=force,
            jobs=jobs,
            evidence=evidence,
            run_id=run_id,
            thresholds=thresholds,
            listen=progress,
        ),
    )
    show_result(result, json_output)


def backfill(
    selection: Selection = None,
    first: Annotated[str | None, typer.Option("--from", help="The first partition.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last, inclusive.")] = None,
    jobs: Jobs = 1,
    on_error: Annotated[str, typer.Option(help="continue with other partitions, or halt.")] = (
        "continue"
    ),
    force: Force = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Run many partitions in one run; those that are unchanged are skipped.

    Example:  tallyman backfill +daily_revenue --from 2026-01-01 --to 2026-01-31 --jobs 4
    """
    found = opened(project, master, spark_conf)
    result, counts = supervised(
        found,
        json_output,
        lambda progress: found.backfill(
            selection or [],
            first=first,
            last=last,
            jobs=jobs,
            on_error=on_error,
            force=force,
            listen=progress,
        ),
    )
    if json_output:
        as_json({"run_id": result.run_id, **counts})
        raise typer.Exit(result.exit_code)
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    out.print(f"partitions: {listed}", markup=False)
    show_result(result, json_output)


def resume(
    run: RunName,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Default: as the run was begun.")
    ] = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Go on with a run that failed, was killed, canceled, or waited for approval.

    What succeeded is not run again; the run keeps its id.
    """
    found = opened(project, master, spark_conf)
    result = supervised(
        found, json_output, lambda progress: found.resume(run, jobs=jobs, listen=progress)
    )
    show_result(result, json_output)


def cancel(
    run: RunName,
    timeout: Annotated[
        float, typer.Option(help="Seconds its process has to stop before the run is taken from it.")
    ] = 30,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Stop a run that is at work. What it finished stays; resume goes on with the rest."""
    found = opened(project)
    record = found.find_run(run)
    status = found.cancel(record.name, timeout_s=timeout)
    if json_output:
        as_json({"run_id": record.name, "status": status.value})
    else:
        out.print(f"run {record.name}: {status.value}", markup=False)


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
    found = opened(str(place), master, spark_conf)
    result = supervised(found, json_output, lambda progress: found.run(force=True, listen=progress))
    tell_result(result, json_output)
    if not json_output:
        out.print(
            f"look around:  cd {place} && tallyman show latest && tallyman rejections ls latest && "
            "tallyman why daily_revenue flight_date=2024-01-15 --limit 3",
            markup=False,
        )
    raise typer.Exit(result.exit_code)


def register(app: typer.Typer) -> None:
    for command in (run, backfill, resume, cancel, demo):
        app.command()(command)
