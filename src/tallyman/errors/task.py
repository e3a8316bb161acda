"""Errors about tasks, workers and their server."""

from __future__ import annotations

from collections.abc import Mapping

from tallyman.errors.base import Conflict, TallymanError


class StaleAttempt(Conflict):
    """A report came from an attempt that no longer counts."""

    code = "stale_attempt"
    hint = "Nothing was changed. Stop this attempt and discard what it made."

    def __init__(self, task: str, attempt: int, current: int, status: str) -> None:
        super().__init__(task, attempt, current, status)
        self.task, self.attempt, self.current, self.status = task, attempt, current, status

    def __str__(self) -> str:
        return (
            f"stale task fence: attempt {self.attempt} of task {self.task} does not count; "
            f"the task is {self.status} at attempt {self.current}"
        )

    def facts(self) -> dict[str, object]:
        fence = {"attempt": self.attempt, "current_attempt": self.current, "status": self.status}
        return {**super().facts(), "fence": fence}


class TaskInState(Conflict):
    """An operator asked for something that the state of the task does not allow."""

    code = "task_in_state"
    hint = "Nothing was changed."

    def __init__(self, task: str, status: str, wanted: str) -> None:
        super().__init__(task, status, wanted)
        self.task, self.status, self.wanted = task, status, wanted

    def __str__(self) -> str:
        return f"task {self.task} is {self.status}: {self.wanted} is not possible"


class PoolMissing(TallymanError):
    """An asset names a pool that nobody made."""

    code = "pool_missing"
    exit_code = 2

    def __init__(self, asset: str, pool: str, nearest: str | None = None) -> None:
        super().__init__(asset, pool, nearest)
        self.asset, self.pool, self.nearest = asset, pool, nearest

    def __str__(self) -> str:
        meant = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return f"asset {self.asset} names the pool {self.pool!r}, which is not there.{meant}"

    @property
    def hint(self) -> str:  # type: ignore[override]
        return f"Make the pool, and try again: tallyman pools set {self.pool} --slots 2"


class RunEnded(Conflict):
    """A task belongs to a run that no longer makes anything."""

    code = "run_ended"
    hint = "Nothing was made. `tallyman resume` goes on with the run."

    def __init__(self, run: str, status: str) -> None:
        super().__init__(run, status)
        self.run, self.status = run, status

    def __str__(self) -> str:
        return f"run {self.run} has ended: it is {self.status}"


class RunClosing(TallymanError):
    """A report came while a server writes the end of the run that it belongs to."""

    code = "run_closing"
    retryable = True
    hint = "Nothing was changed. Report again: in a moment the run has ended."

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} is being closed"


class TriggerGone(TallymanError):
    """A task was made for a trigger that the active pipeline version does not have."""

    code = "trigger_gone"
    hint = "Nothing was made. `tallyman run` makes the asset, if there is one."

    def __init__(self, asset: str, version: str) -> None:
        super().__init__(asset, version)
        self.asset, self.version = asset, version

    def __str__(self) -> str:
        return f"{self.asset} has no trigger in pipeline version {self.version[:8]}"


class PipelineMoved(Conflict):
    """A target was made by a pipeline version that is no longer the active one."""

    code = "pipeline_moved"
    retryable = True
    hint = "Nothing was published. The next attempt makes it by the active version."

    def __init__(self, asset: str, version: str, active: str) -> None:
        super().__init__(asset, version, active)
        self.asset, self.version, self.active = asset, version, active

    def __str__(self) -> str:
        return (
            f"{self.asset} was made by pipeline version {self.version[:8]}, "
            f"and {self.active[:8]} is active since"
        )


class OutcomeUnfit(TallymanError):
    """A worker reported a result whose files are not what it says."""

    code = "outcome_unfit"
    retryable = True
    hint = "Nothing was recorded. The task is tried again while it has attempts left."

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target, self.reason = target, reason

    def __str__(self) -> str:
        return f"the result of {self.target} cannot be recorded: {self.reason}"


class TokenMissing(TallymanError):
    """A call to the internal listener has no token, or one that nobody knows."""

    code = "token_missing"
    exit_code = 2
    hint = "Send `Authorization: Bearer` with the token of a worker."

    def __str__(self) -> str:
        return "this listener is for workers, and the call has no valid worker token"


class NotAWorker(TallymanError):
    """The token is valid elsewhere, but not that of a worker."""

    code = "not_a_worker"
    exit_code = 2
    hint = "Use the public address of the server for everything that users do."

    def __str__(self) -> str:
        return "this listener is for workers; tokens of users are refused"


class TokenNameTaken(Conflict):
    """Another token of the pipeline has this name."""

    code = "token_name_taken"
    hint = "Choose another name, or revoke that token first: tallyman worker token revoke NAME"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is a worker token {self.name!r} already, and nobody can read it again"


class ServerUnavailable(TallymanError):
    """The server of a worker does not answer."""

    code = "server_unavailable"
    retryable = True
    hint = "Nothing was lost: the task is taken over when its lease ends."

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"the server ({self.place}) does not answer: {self.reason}"


class ServerNotReady(TallymanError):
    """A run was to be made by the workers of a server that hands out no tasks."""

    code = "server_not_ready"
    retryable = True
    hint = (
        "No run was begun. Start the server: tallyman server. To make the run without it: "
        "TALLYMAN_SERVER=none tallyman run"
    )

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"runs are made by the server at {self.place}, and {self.reason}"


class CallRefused(TallymanError):
    """The server answered a call of a worker with a problem."""

    code = "call_refused"

    def __init__(
        self, status: int, problem: str, detail: str, fence: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(status, problem, detail, fence)
        self.status, self.problem, self.detail = status, problem, detail
        self.fence = dict(fence or {})
        """For a stale attempt: the attempt that counts instead, and the status of its task."""

    @property
    def hint(self) -> str:  # type: ignore[override]
        if self.status != 401:
            return ""
        return "Make a token in the project's folder: tallyman worker token create NAME"

    def __str__(self) -> str:
        return f"the server refused the call ({self.status} {self.problem}): {self.detail}"


class CannotConfine(TallymanError):
    """Code that is not ours was to be run, and this machine cannot keep it inside."""

    code = "cannot_confine"
    hint = "Nothing was run. Start a worker for these tasks on a machine that can, with --pool."

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"user code cannot be confined on this machine: {self.reason}"
