"""Errors about the state and the owner of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tallyman.errors.base import Conflict, NotFound, TallymanError


class RunExists(TallymanError):
    """Another run already has this id."""

    code = "run_exists"
    exit_code = 2
    hint = "Choose another --run-id, or omit it to get a new one."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run!r} already exists; a run id is used only once."


class RunBusy(Conflict):
    """Another process is still executing the run."""

    code = "run_busy"
    hint = "Wait until it ends (`tallyman watch`), or stop it first: `tallyman cancel`."

    def __init__(self, run: str, node: str) -> None:
        super().__init__(run, node)
        self.run, self.node = run, node

    def __str__(self) -> str:
        return f"run {self.run} is still running on {self.node}."


class WatchStopped(KeyboardInterrupt):
    """Ctrl-C while a run was watched that goes on without this process."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run


class BreakerOpen(TallymanError):
    """The circuit breaker of an asset tripped, and nobody has closed it since."""

    code = "breaker_open"
    exit_code = 3
    hint = (
        "Nothing was read. Repair the input or the schema of the source, then close the breaker: "
        "`tallyman breakers close ASSET`."
    )

    def __init__(self, asset: str, run: str, since: datetime, reason: str) -> None:
        super().__init__(asset, run, since, reason)
        self.asset, self.run, self.since, self.reason = asset, run, since, reason

    def __str__(self) -> str:
        return (
            f"the breaker of {self.asset} is open since {self.since:%Y-%m-%d %H:%M} UTC, "
            f"run {self.run}: {self.reason}"
        )


class RunRemoved(NotFound):
    """The folder of the run was removed; the registry still knows the run."""

    code = "run_removed"
    hint = (
        "Its evidence, trace and rejections are gone; `tallyman runs`, `lineage` and the chain of "
        "seals still name it."
    )

    def __init__(self, run: str, at: datetime, by: str) -> None:
        super().__init__("run", run)
        self.run, self.at, self.by = run, at, by

    def __str__(self) -> str:
        return f"run {self.run} was removed on {self.at:%Y-%m-%d} by {self.by}."


class NotRunning(Conflict):
    """Only a run that is running, failed or was killed can be canceled."""

    code = "not_running"

    def __init__(self, run: str, status: str) -> None:
        super().__init__(run, status)
        self.run, self.status = run, status

    def __str__(self) -> str:
        return f"run {self.run} cannot be canceled: its state is {self.status}."


class RunDamaged(TallymanError):
    """A file in a run folder is missing, or differs from what the run wrote."""

    code = "run_damaged"
    hint = (
        "Nothing from this file was used. `tallyman verify RUN` lists all damaged files; restore "
        "them from a copy, or make the result again: `tallyman run --force`."
    )

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file, self.reason = file, reason

    def __str__(self) -> str:
        return f"{self.file} is not what the run wrote: {self.reason}."

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "file": self.file}


class RunTaken(Conflict):
    """Another process holds this run now; writes of this process are no longer accepted."""

    code = "run_taken"
    hint = "Nothing more was written by this process. `tallyman show` shows the run's state."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was taken over or canceled while this process was executing it."


class DependencyNotReady(Conflict):
    """An upstream asset that is not part of the run has no result to read."""

    code = "dependency_not_ready"
    retryable = True
    hint = (
        "Nothing was run. To make the inputs too, put a + before the asset's name; a dataset of "
        "another pipeline is made there."
    )

    def __init__(self, missing: Sequence[tuple[str, str]]) -> None:
        super().__init__(tuple(missing))
        self.missing = tuple(missing)

    def __str__(self) -> str:
        listed = "; ".join(f"{reader} reads {read}" for reader, read in self.missing[:5])
        more = f" and {len(self.missing) - 5} more" if len(self.missing) > 5 else ""
        return f"{len(self.missing)} input(s) have no valid result: {listed}{more}."


class AlreadyDecided(Conflict):
    """An approval can be answered only once."""

    code = "already_decided"
    hint = "The first decision stands."

    def __init__(self, target: str, status: str, by: str | None) -> None:
        super().__init__(target, status, by)
        self.target, self.status, self.by = target, status, by

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        return f"{self.target}: the approval was already {self.status}{who}."


class TraceDiscarded(TallymanError):
    """A result was taken back, because its run was canceled before anything was published."""

    code = "trace_discarded"
    hint = "`tallyman resume`, or the next run, makes it again."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was canceled: the result was discarded with its trace."


class TargetTimeout(TallymanError):
    """An attempt at a target took longer than its asset allows."""

    code = "timeout"
    retryable = True
    hint = (
        "Nothing was published. Give it more time: `timeout=` of the asset; or less to do: "
        "partitions. `tallyman resume` makes what is missing."
    )

    def __init__(self, target: str, attempt: int, limit_s: float) -> None:
        super().__init__(target, attempt, limit_s)
        self.target, self.attempt, self.limit_s = target, attempt, limit_s

    def __str__(self) -> str:
        return f"attempt {self.attempt} at {self.target} took longer than {self.limit_s:g} s."


class RunCanceled(TallymanError):
    """A person asked for the run to stop."""

    code = "canceled"
    exit_code = 130
    hint = "Finished results without a trace are kept. `tallyman resume` continues with the rest."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was canceled."
