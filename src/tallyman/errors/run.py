"""Runs that are at work, gone, waiting or somebody else's."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, TallymanError


class RunExists(TallymanError):
    """A run keeps its name."""

    code = "run_exists"
    exit_code = 2
    hint = "Choose another --run-id, or leave it out to get a fresh one."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run!r} already exists; a run's name is used once."


class RunBusy(Conflict):
    """A process is still at work on the run."""

    code = "run_busy"
    hint = "Wait for it, or stop it first: `tallyman cancel`."

    def __init__(self, run: str, node: str) -> None:
        super().__init__(run, node)
        self.run, self.node = run, node

    def __str__(self) -> str:
        return f"run {self.run} is still at work on {self.node}."


class NotRunning(Conflict):
    """Only a run at work can be canceled."""

    code = "not_running"

    def __init__(self, run: str, status: str) -> None:
        super().__init__(run, status)
        self.run, self.status = run, status

    def __str__(self) -> str:
        return f"run {self.run} is not at work: {self.status}."


class RunDamaged(TallymanError):
    """A file of a run's folder is gone, or is not byte for byte what the run wrote."""

    code = "run_damaged"
    hint = (
        "Nothing of it was used. `tallyman verify RUN` names all damaged files; put them back from "
        "a copy, or make the result again: `tallyman run --force`."
    )

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file, self.reason = file, reason

    def __str__(self) -> str:
        return f"{self.file} is not what the run wrote: {self.reason}."

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "file": self.file}


class RunTaken(Conflict):
    """Another process has this run now: what this one does no longer counts."""

    code = "run_taken"
    hint = "Nothing more was written by this process. `tallyman show` shows the run's state."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was taken over or canceled while this process worked on it."


class DependencyNotReady(Conflict):
    """An upstream asset that is not part of the run has no result to read."""

    code = "dependency_not_ready"
    retryable = True
    hint = "Nothing was run. Select what it reads too: put a + before the name."

    def __init__(self, missing: Sequence[tuple[str, str]]) -> None:
        super().__init__(tuple(missing))
        self.missing = tuple(missing)

    def __str__(self) -> str:
        listed = "; ".join(f"{reader} reads {read}" for reader, read in self.missing[:5])
        more = f" and {len(self.missing) - 5} more" if len(self.missing) > 5 else ""
        return f"{len(self.missing)} input(s) have no result yet: {listed}{more}."


class AlreadyDecided(Conflict):
    """An approval is answered once."""

    code = "already_decided"
    hint = "The first decision stands."

    def __init__(self, target: str, status: str, by: str | None) -> None:
        super().__init__(target, status, by)
        self.target, self.status, self.by = target, status, by

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        return f"{self.target}: the approval was already {self.status}{who}."


class ForeignAsset(Conflict):
    """Two projects share a database and a name."""

    code = "foreign_asset"
    hint = (
        "Rename the asset, give the project a database of its own, or its old name back if it was "
        "renamed."
    )

    def __init__(self, asset: str, project: str) -> None:
        super().__init__(asset, project)
        self.asset, self.project = asset, project

    def __str__(self) -> str:
        return f"asset {self.asset!r} belongs to project {self.project!r} in this database."


class RunCanceled(TallymanError):
    """Somebody asked for the run to stop."""

    code = "canceled"
    exit_code = 130
    hint = "What was finished stays. `tallyman resume` goes on with the rest."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} was canceled."
