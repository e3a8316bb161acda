"""Make one target in the child of a worker: no database, no token, no user code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.control.target.in_child import ProjectsOfChild, make
from tallyman.control.target.package import TargetPackage
from tallyman.worker.child import Channel

_projects = ProjectsOfChild()


def prepare_work(process: Mapping[str, Any]) -> None:
    """Start Spark before there is a task."""
    _projects.prepare(process)


def work(task: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Make the target that the task was assigned. The server records the outcome, also of a
    failure."""
    if "package" not in task:
        why = "the server that gave the task serves no project: another one may have it"
        error = {"code": "server_not_ready", "message": why}
        return {"status": "Failed", "retryable": True, "error": error}
    package = TargetPackage.of_json(task["package"])
    made = make(package, _projects)
    outcome = made.outcome
    if outcome.made is not None or outcome.reused is not None:
        return {"made": made.to_json()}
    error = dict(outcome.result.error or {})
    known = {name: str(error[name]) for name in ("code", "message") if name in error}
    return {
        "status": "Failed",
        "retryable": outcome.retryable,
        "error": known,
        "made": made.to_json(),
    }
