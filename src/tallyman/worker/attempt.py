"""One attempt at a task: child, heartbeats, deadline, cancel, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from tallyman.domain.task.fence import BEING_CANCELED
from tallyman.errors import CallRefused, ServerUnavailable
from tallyman.worker.child_process import ChildKind, ChildProcess
from tallyman.worker.client import ServerClient
from tallyman.worker.warm_children import WarmChildren

log = logging.getLogger("tallyman.worker")

STOP_GRACE_S = 5.0
"""How long a child may take to stop when it is asked to."""
LONGEST_BEAT_S = 2.0
"""The longest time between two heartbeats: a worker learns from them that its task is canceled."""
REPORT_S = 600.0
"""How long a worker tries to report: a late completion still counts."""
PAUSE_S = 0.5
HEARTBEAT = "/internal/heartbeat"
EVENTS = "/internal/events"
COMPLETE = "/internal/task-complete"
WRONG = ("invalid_request", "usage_error", "too_large")
"""The problems of a call that is wrong in itself: repeating the work would repeat them."""
GIVEN_UP = ("Running", "Failed", "Queued")
"""The statuses of a task whose lease is over, and of which no newer attempt has begun."""


class Attempt:
    def __init__(
        self, client: ServerClient, children: WarmChildren, claimed: Mapping[str, Any]
    ) -> None:
        self._client, self._children = client, children
        self._task: dict[str, Any] = claimed["task"]
        self._fence = {
            "task_id": self._task["task_id"],
            "attempt": claimed["attempt"],
            "lease_token": claimed["lease_token"],
        }
        self._deadline = time.monotonic() + float(self._task["timeout_s"])
        self._beat_s = min(float(self._task["lease_s"]) / 3, LONGEST_BEAT_S)
        self._stop_at: float | None = None
        self._begun = self._fit = self._again = False
        self._kept: list[Any] = []
        """Events that came after the lease was over: they count with the completion."""

    def run(self, entry: str | None, *, confined: bool = False) -> None:
        """Do the work in a child and report its end; never raises because of the work."""
        if entry is None:
            kind = self._task["kind"]
            self._report(_failure("unknown_kind", f"this worker cannot do {kind!r}", again=False))
            return
        try:
            result = self._work(ChildKind.of(entry, self._task, confined=confined))
        except CallRefused as refused:
            # The server does not accept what this attempt says: it no longer counts.
            log.warning("task %s: %s", self._task["task_id"], refused)
            return
        except OSError as error:
            result = _failure("io_error", f"no process could be started for the task: {error}")
        self._report(result)

    def _work(self, kind: ChildKind) -> dict[str, Any]:
        """Have the work done by a child; return the result once that has ended or waits again. If
        the child died while it waited, or lost its JVM, a new one does the work, once."""
        result = self._work_in(self._children.take(kind))
        if self._again and self._stop_at is None:
            result = self._work_in(self._children.take(kind, new=True))
        return result

    def _work_in(self, child: ChildProcess) -> dict[str, Any]:
        self._begun = self._fit = self._again = False
        try:
            child.begin(self._task)
            return self._watch(child)
        finally:
            self._children.give_back(child, fit=self._fit)

    def _watch(self, child: ChildProcess) -> dict[str, Any]:
        """Wait for the result; meanwhile pass on events, renew the lease and look at the clock."""
        beat_at = time.monotonic() + self._beat_s
        while True:
            now = time.monotonic()
            if now >= self._deadline:
                child.kill()
                text = f"the attempt took longer than {self._task['timeout_s']} s"
                return _failure("timeout", text)
            if self._stop_at is not None and now >= self._stop_at:
                child.kill()
                return {"status": "Canceled"}
            if now >= beat_at:
                beat_at = now + self._beat_s
                self._beat(child)
            next_at = min(beat_at, self._deadline, self._stop_at or beat_at)
            messages, ended = child.messages(next_at - now)
            for message in messages:
                self._begun = True
                if "events" in message:
                    wrong = self._emit(message["events"])
                    if wrong is not None:
                        child.kill()
                        return wrong
                elif "result" in message:
                    self._fit = self._stop_at is None and message.get("fit") is True
                    self._again = message.get("lost") is True
                    return self._ended(message["result"])
            if ended:
                return self._without_result(child)

    def _emit(self, events: Any) -> dict[str, Any] | None:
        """Send events of the work; return the failure that they are if they are wrong."""
        try:
            self._patiently(EVENTS, {"events": events})
        except CallRefused as refused:
            if self._may_still_count(refused):
                self._kept += events
                return None
            if refused.problem not in WRONG:
                raise
            return _failure(refused.problem, refused.detail, again=False)
        return None

    def _ended(self, result: Any) -> dict[str, Any]:
        if self._stop_at is not None or not isinstance(result, dict):
            return {"status": "Canceled"} if self._stop_at else _failure("no_result", "no result")
        return result

    def _without_result(self, child: ChildProcess) -> dict[str, Any]:
        code = child.exit_code()
        if self._stop_at is not None:
            return {"status": "Canceled"}
        self._again = not self._begun and child.tasks > 1
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return _failure("execution_error", f"the process {how}, without a result", child.tail())

    def _beat(self, child: ChildProcess) -> None:
        try:
            answer = self._client.post(HEARTBEAT, self._fence)
        except ServerUnavailable as error:
            # The work goes on: until another attempt begins, its completion counts.
            log.warning("heartbeat: %s", error)
            return
        except CallRefused as refused:
            if not self._may_still_count(refused):
                raise
            log.warning("task %s: its lease is over, the work goes on", self._task["task_id"])
            return
        if answer["cancel_requested"] and self._stop_at is None:
            self._stop_at = time.monotonic() + STOP_GRACE_S
            child.ask_to_stop()

    def _may_still_count(self, refused: CallRefused) -> bool:
        """True if the task was given up after an outage, and nobody else has begun it: a late
        completion counts."""
        current = refused.fence.get("current_attempt") == self._fence["attempt"]
        return refused.status == 409 and current and refused.fence.get("status") in GIVEN_UP

    def _report(self, result: Mapping[str, Any]) -> None:
        """Report the end; if it comes after a cancel, or is wrong in itself, report that."""
        known = ("status", "events", "retryable", "error", "made")
        body = {name: result[name] for name in known if name in result}
        if self._kept:
            body["events"] = [*self._kept, *body.get("events", [])]
        for is_last in (False, True):
            try:
                self._patiently(COMPLETE, body)
                return
            except CallRefused as refused:
                instead = None if is_last else self._instead_of_refused(refused)
                if instead is None:
                    log.warning("task %s: %s", self._task["task_id"], refused)
                    return
                body = instead

    def _instead_of_refused(self, refused: CallRefused) -> dict[str, Any] | None:
        """Return the report that takes the place of a refused one; None if the attempt no longer
        counts."""
        current = refused.fence.get("current_attempt") == self._fence["attempt"]
        if current and refused.fence.get("status") == BEING_CANCELED:
            # Without a report the task would be canceled only when the lease is over.
            return {"status": "Canceled"}
        if refused.problem in WRONG:
            return _failure(refused.problem, refused.detail, again=False)
        return None

    def _patiently(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call the server, again while it does not answer: every call may be repeated. Nothing is
        returned if it never does."""
        until = time.monotonic() + REPORT_S
        while True:
            try:
                return self._client.post(path, {**self._fence, **body})
            except ServerUnavailable as error:
                if time.monotonic() >= until:
                    log.error("task %s: %s", self._task["task_id"], error)
                    return {}
                time.sleep(PAUSE_S)


def _failure(code: str, message: str, output: str = "", *, again: bool = True) -> dict[str, Any]:
    error = {"code": code, "message": message} | ({"output": output} if output else {})
    return {"status": "Failed", "retryable": again, "error": error}
