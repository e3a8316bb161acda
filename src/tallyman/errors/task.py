"""Errors about tasks, workers and their server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tallyman.errors.base import Conflict, TallymanError


class StaleAttempt(Conflict):
    code = "stale_attempt"
    hint = "Nothing was changed. Stop this attempt and discard what it made."
    text = (
        "stale task fence: attempt {attempt} of task {task} does not count; the task is {status} "
        "at attempt {current}"
    )
    task: str
    attempt: int
    current: int
    status: str

    def facts(self) -> dict[str, object]:
        fence = {"attempt": self.attempt, "current_attempt": self.current, "status": self.status}
        return {**super().facts(), "fence": fence}


class TaskInState(Conflict):
    code = "task_in_state"
    hint = "Nothing was changed."
    text = "task {task} is {status}: {wanted} is not possible"
    task: str
    status: str
    wanted: str


class PoolMissing(TallymanError):
    """An asset names a pool that nobody made."""

    code = "pool_missing"
    exit_code = 2
    asset: str
    pool: str
    nearest: str | None = None

    def __str__(self) -> str:
        meant = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return f"asset {self.asset} names the pool {self.pool!r}, which is not there.{meant}"

    @property
    def hint(self) -> str:  # type: ignore[override]
        return f"Make the pool, and try again: tallyman pools set {self.pool} --slots 2"


class RunEnded(Conflict):
    code = "run_ended"
    hint = "Nothing was made. `tallyman resume` goes on with the run."
    text = "run {run} has ended: it is {status}"
    run: str
    status: str


class RunClosing(TallymanError):
    """A report came while a server writes the end of the run that it belongs to."""

    code = "run_closing"
    retryable = True
    hint = "Nothing was changed. Report again: in a moment the run has ended."
    text = "run {run} is being closed"
    run: str


class TriggerGone(TallymanError):
    code = "trigger_gone"
    hint = "Nothing was made. `tallyman run` makes the asset, if there is one."
    text = "{asset} has no trigger in pipeline version {version:.8}"
    asset: str
    version: str


class PipelineMoved(Conflict):
    code = "pipeline_moved"
    retryable = True
    hint = "Nothing was published. The next attempt makes it by the active version."
    text = "{asset} was made by pipeline version {version:.8}, and {active:.8} is active since"
    asset: str
    version: str
    active: str


class OutcomeUnfit(TallymanError):
    """A worker reported a result whose files are not what it says."""

    code = "outcome_unfit"
    retryable = True
    hint = "Nothing was recorded. The task is tried again while it has attempts left."
    text = "the result of {target} cannot be recorded: {reason}"
    target: str
    reason: str


class TokenMissing(TallymanError):
    code = "token_missing"
    exit_code = 2
    hint = "Send `Authorization: Bearer` with the token of a worker."
    text = "this listener is for workers, and the call has no valid worker token"


class NotAWorker(TallymanError):
    code = "not_a_worker"
    exit_code = 2
    hint = "Use the public address of the server for everything that users do."
    text = "this listener is for workers; tokens of users are refused"


class TokenNameTaken(Conflict):
    code = "token_name_taken"
    hint = "Choose another name, or revoke that token first: tallyman worker token revoke NAME"
    text = "there is a worker token {name!r} already, and nobody can read it again"
    name: str


class ServerUnavailable(TallymanError):
    code = "server_unavailable"
    retryable = True
    hint = "Nothing was lost: the task is taken over when its lease ends."
    text = "the server ({place}) does not answer: {reason}"
    place: str
    reason: str


class ServerNotReady(TallymanError):
    code = "server_not_ready"
    retryable = True
    hint = (
        "No run was begun. Start the server: tallyman server. To make the run without it: "
        "TALLYMAN_SERVER=none tallyman run"
    )
    text = "runs are made by the server at {place}, and {reason}"
    place: str
    reason: str


class CallRefused(TallymanError):
    code = "call_refused"
    text = "the server refused the call ({status} {problem}): {detail}"
    status: int
    problem: str
    detail: str
    fence: Mapping[str, object] = field(default_factory=dict)
    """For a stale attempt: the attempt that counts instead, and the status of its task."""

    @property
    def hint(self) -> str:  # type: ignore[override]
        if self.status != 401:
            return ""
        return "Make a token in the project's folder: tallyman worker token create NAME"


class CannotConfine(TallymanError):
    code = "cannot_confine"
    hint = "Nothing was run. Start a worker for these tasks on a machine that can, with --pool."
    text = "user code cannot be confined on this machine: {reason}"
    reason: str
