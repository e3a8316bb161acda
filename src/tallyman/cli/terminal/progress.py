"""Progress of a command on the terminal, and a clean stop on Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TypeVar

import typer
from rich.status import Status as Spinner

from tallyman.cli.terminal.output import (
    err,
    interactive,
    out,
    tally,
)
from tallyman.domain.history.run import AssetResult
from tallyman.errors import WatchStopped
from tallyman.project import Project

T = TypeVar("T")


PHASES = {
    "opening": "checking its inputs",
    "making": "being made by a worker",
    "evaluating": "evaluating",
    "settling": "writing evidence",
    "proving": "balancing the ledger",
}


class Progress:
    """One line per finished asset; on a terminal also the current phase."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.spinner: Spinner | None = None
        self.notes = ProgressNotes(self)

    def begin(self) -> None:
        self._say("checking what has changed")

    def __call__(self, asset: str, phase: str, result: AssetResult | None) -> None:
        if result is None:
            self._say(f"{asset}: {PHASES.get(phase, phase)}")
        elif not self.quiet:
            self.stop()
            out.print(tally(result))

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


class ProgressNotes(logging.Handler):
    """Prints what is logged while a run is made or watched."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.WARNING)
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self.progress.stop()
        err.print(record.getMessage(), style="yellow")


def supervised(project: Project, json_output: bool, work: Callable[[Progress], T]) -> T:
    """Run `work` with progress shown. On Ctrl-C, stop Spark and print how to continue."""
    progress = Progress(quiet=json_output)
    notes = logging.getLogger("tallyman.run")
    notes.addHandler(progress.notes)
    notes.propagate = False
    try:
        progress.begin()
        return work(progress)
    except WatchStopped as stopped:
        progress.stop()
        err.print(f"run {stopped.run} goes on without this command")
        err.print(f"to watch it:  tallyman watch {stopped.run}")
        err.print(f"to stop it:   tallyman cancel {stopped.run}")
        raise typer.Exit(130) from None
    except KeyboardInterrupt as error:
        progress.stop()
        where = f" {error}" if error.args else ""  # while the pipeline's own code ran
        done = "nothing more was published. Finished results without a trace are kept."
        err.print(f"interrupted{where}: {done}")
        for run in project.runs(limit=1) if not where else ():
            err.print(f"to continue it:  tallyman resume {run.name}")
        sys.stderr.flush()
        project.close()
        os._exit(130)  # Spark's threads may hang in a half-done job; nothing of ours is pending
    finally:
        progress.stop()
        notes.removeHandler(progress.notes)
