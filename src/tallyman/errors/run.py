"""Errors about the state and the owner of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime

from tallyman.errors.base import Conflict, NotFound, TallymanError


class RunExists(TallymanError):
    code = "run_exists"
    exit_code = 2
    hint = "Choose another --run-id, or omit it to get a new one."
    text = "run {run!r} already exists; a run id is used only once."
    run: str


class RunBusy(Conflict):
    code = "run_busy"
    hint = "Wait until it ends (`tallyman watch`), or stop it first: `tallyman cancel`."
    text = "run {run} is still running on {node}."
    run: str
    node: str


class WatchStopped(KeyboardInterrupt):
    """Ctrl-C while a run was watched that goes on without this process."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run


class BreakerOpen(TallymanError):
    code = "breaker_open"
    exit_code = 3
    hint = (
        "Nothing was read. Repair the input or the schema of the source, then close the breaker: "
        "`tallyman breakers close ASSET`."
    )
    text = "the breaker of {asset} is open since {since:%Y-%m-%d %H:%M} UTC, run {run}: {reason}"
    asset: str
    run: str
    since: datetime
    reason: str


class RunRemoved(NotFound):
    """The folder of the run was removed; the registry still knows the run."""

    code = "run_removed"
    hint = (
        "Its evidence, trace and rejections are gone; `tallyman runs`, `lineage` and the chain of "
        "seals still name it."
    )
    text = "run {name} was removed on {at:%Y-%m-%d} by {by}."
    what: str = field(default="run", init=False)
    nearest: str | None = field(default=None, init=False)
    at: datetime
    by: str


class NotRunning(Conflict):
    """Only a run that is running, failed or was killed can be canceled."""

    code = "not_running"
    text = "run {run} cannot be canceled: its state is {status}."
    run: str
    status: str


class RunDamaged(TallymanError):
    code = "run_damaged"
    hint = (
        "Nothing from this file was used. `tallyman verify RUN` lists all damaged files; restore "
        "them from a copy, or make the result again: `tallyman run --force`."
    )
    text = "{file} is not what the run wrote: {reason}."
    file: str
    reason: str

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "file": self.file}


class RunTaken(Conflict):
    code = "run_taken"
    hint = "Nothing more was written by this process. `tallyman show` shows the run's state."
    text = "run {run} was taken over or canceled while this process was executing it."
    run: str


class DependencyNotReady(Conflict):
    """An upstream asset that is not part of the run has no result to read."""

    code = "dependency_not_ready"
    retryable = True
    hint = (
        "Nothing was run. To make the inputs too, put a + before the asset's name; a dataset of "
        "another pipeline is made there."
    )
    missing: Sequence[tuple[str, str]]

    def __str__(self) -> str:
        listed = "; ".join(f"{reader} reads {read}" for reader, read in self.missing[:5])
        more = f" and {len(self.missing) - 5} more" if len(self.missing) > 5 else ""
        return f"{len(self.missing)} input(s) have no valid result: {listed}{more}."


class AlreadyDecided(Conflict):
    """An approval can be answered only once."""

    code = "already_decided"
    hint = "The first decision stands."
    target: str
    status: str
    by: str | None

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        return f"{self.target}: the approval was already {self.status}{who}."


class TraceDiscarded(TallymanError):
    code = "trace_discarded"
    hint = "`tallyman resume`, or the next run, makes it again."
    text = "run {run} was canceled: the result was discarded with its trace."
    run: str


class TargetTimeout(TallymanError):
    code = "timeout"
    retryable = True
    hint = (
        "Nothing was published. Give it more time: `timeout=` of the asset; or less to do: "
        "partitions. `tallyman resume` makes what is missing."
    )
    text = "attempt {attempt} at {target} took longer than {limit_s:g} s."
    target: str
    attempt: int
    limit_s: float


class RunCanceled(TallymanError):
    code = "canceled"
    exit_code = 130
    hint = "Finished results without a trace are kept. `tallyman resume` continues with the rest."
    text = "run {run} was canceled."
    run: str
