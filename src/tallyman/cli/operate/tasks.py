"""`tallyman tasks`: the work of workers, and what operators do to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, Limit, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, counted, out, short, table
from tallyman.control.dispatch.ended import target_text
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import Task
from tallyman.errors import UsageError
from tallyman.errors.wording import nearest
from tallyman.pages.text import duration
from tallyman.project.tasks import ProjectTasks, TaskChoice

tasks = typer.Typer(
    help="List the tasks of workers; retry, cancel, hold and release them.",
    invoke_without_command=True,
)
Status = Annotated[
    str | None,
    typer.Option(help="Only queued, running, waiting, completed, failed or canceled ones."),
]
Asset = Annotated[str | None, typer.Option(help="Only tasks of this asset.")]
OfRun = Annotated[str | None, typer.Option("--run", help="Only tasks of this run.")]
TaskNames = Annotated[
    list[str] | None, typer.Argument(metavar="[TASK]...", help="Ids, or beginnings of ids.")
]
Everything = Annotated[bool, typer.Option("--all", help="All to which it applies.")]


@tasks.callback()
@tasks.command(
    help="List tasks, newest first.",
    epilog="Example:  tallyman tasks ls --status failed --asset daily_sales",
)
def ls(
    context: typer.Context,
    status: Status = None,
    asset: Asset = None,
    run: OfRun = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    found = opened(project).tasks(status=_status(status), asset=asset, run=run, limit=limit)
    if json_output:
        as_json([_facts(task) for task in found])
    elif found:
        rows = [_row(task) for task in found]
        names = ["task", "target", "status", "attempt", "trigger", "created", "worker", "error"]
        table(rows, [name for name in names if any(row[name] not in (None, "") for row in rows)])
    else:
        out.print("no such tasks" if status or asset or run else "no tasks yet")


@tasks.command(epilog="Example:  tallyman tasks show 3f2a")
def show(
    task: Annotated[str, typer.Argument(help="An id, or the beginning of one.")],
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Show a task with all its attempts, and why they failed."""
    part = opened(project).tasks
    found = part.find(task)
    attempts = part.attempts(found.id)
    if json_output:
        as_json({**_facts(found), "attempts": [_attempt(row) for row in attempts]})
        return
    for name, value in _lines(found):
        out.print(f"{name:<11}{value}")
    if attempts:
        rows = [_attempt_row(row) for row in attempts]
        table(rows, ("attempt", "worker", "slot", "started", "took", "outcome", "error"))
    said = (found.error or {}).get("output")
    if said:
        out.print(f"the end of what it printed:\n{said}")


@tasks.command(epilog="Example:  tallyman tasks retry --all --asset daily_sales")
def retry(
    names: TaskNames = None,
    everything: Everything = False,
    asset: Asset = None,
    run: OfRun = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Start tasks again that failed for good or were canceled.

    Each gets all of its attempts again. With --all: those that failed.
    """
    choice = TaskChoice(named=names or [], everything=everything, asset=asset, run=run)
    _change(project, "queued again", ProjectTasks.retry, choice, json_output)


@tasks.command(epilog="Example:  tallyman tasks cancel 3f2a")
def cancel(
    names: TaskNames = None,
    everything: Everything = False,
    asset: Asset = None,
    run: OfRun = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Cancel tasks that have not ended.

    A running one is asked to stop, and canceled by force after 30 seconds. Nothing of it is
    published.
    """
    choice = TaskChoice(named=names or [], everything=everything, asset=asset, run=run)
    _change(project, "canceled", ProjectTasks.cancel, choice, json_output)


@tasks.command(epilog="Example:  tallyman tasks hold --all --asset daily_sales")
def hold(
    names: TaskNames = None,
    everything: Everything = False,
    asset: Asset = None,
    run: OfRun = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Keep workers from beginning tasks, until they are released."""
    choice = TaskChoice(named=names or [], everything=everything, asset=asset, run=run)
    _change(project, "held", ProjectTasks.hold, choice, json_output)


@tasks.command(epilog="Example:  tallyman tasks release --all")
def release(
    names: TaskNames = None,
    everything: Everything = False,
    asset: Asset = None,
    run: OfRun = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Let workers begin tasks that are held."""
    choice = TaskChoice(named=names or [], everything=everything, asset=asset, run=run)
    _change(project, "released", ProjectTasks.release, choice, json_output)


def _change(
    project: str | None,
    word: str,
    verb: Callable[[ProjectTasks, TaskChoice], list[Task]],
    choice: TaskChoice,
    json_output: bool,
) -> None:
    changed = verb(opened(project).tasks, choice)
    if json_output:
        as_json([_facts(task) for task in changed])
        return
    for task in changed:
        asked = task.status is TaskStatus.RUNNING and task.cancel_requested_at is not None
        did = "was asked to stop" if asked else word
        out.print(f"{_id(task)}  {target_text(task)}  {did}")
    if len(changed) != 1:
        out.print(f"{counted(len(changed), 'task')} {word}")


def _status(text: str | None) -> TaskStatus | None:
    if text is None:
        return None
    known = {status.value.lower(): status for status in TaskStatus}
    if text.lower() not in known:
        near = nearest(text, list(known))
        meant = f" Did you mean {near!r}?" if near else ""
        raise UsageError(f"--status: there is no status {text!r}.{meant}")
    return known[text.lower()]


def _id(task: Task) -> str:
    return str(task.id)[:8]


def _state(task: Task) -> str:
    """The status in a word, with what it waits for."""
    if task.held_by is not None:
        return f"held by {task.held_by}"
    if task.status is TaskStatus.RUNNING and task.cancel_requested_at is not None:
        return "stopping"
    if task.next_retry_at is not None:
        return f"failed, again at {task.next_retry_at:%H:%M:%SZ}"
    return task.status.value.lower()


def _attempts(task: Task) -> str:
    if not task.attempts_before:
        return f"{task.attempt} of {task.max_attempts}" if task.attempt else ""
    since = task.attempt - task.attempts_before
    return f"{task.attempt}, {since} of {task.max_attempts} since the retry"


def _row(task: Task) -> dict[str, Any]:
    return {
        "task": _id(task),
        "target": target_text(task),
        "status": _state(task),
        "attempt": _attempts(task),
        "trigger": task.trigger.value,
        "created": _instant(task.created_at),
        "worker": task.worker if task.status is TaskStatus.RUNNING else None,
        "error": _first(task.error),
    }


def _facts(task: Task) -> dict[str, Any]:
    return {
        "task_id": str(task.id),
        "asset": task.asset,
        "target": target_text(task),
        "scope": task.scope.to_json(),
        "kind": task.kind,
        "status": task.status.value,
        "attempt": task.attempt,
        "max_attempts": task.max_attempts,
        "attempts_before": task.attempts_before,
        "failures": task.failures,
        "trigger": task.trigger.value,
        "run_id": task.run_id and str(task.run_id),
        "pipeline_version": task.pipeline_version,
        "pool": task.pool,
        "priority": task.priority,
        "held_by": task.held_by,
        "cancel_requested_at": _instant(task.cancel_requested_at),
        "next_retry_at": _instant(task.next_retry_at),
        "worker": task.worker,
        "created_at": _instant(task.created_at),
        "finished_at": _instant(task.finished_at),
        "error": task.error,
    }


def _lines(task: Task) -> list[tuple[str, str]]:
    lines = [
        ("task", str(task.id)),
        ("target", target_text(task)),
        ("status", _state(task)),
        ("attempt", _attempts(task) or "none yet"),
        ("trigger", task.trigger.value),
        ("pool", f"{task.pool}, priority {task.priority}"),
        ("created", _instant(task.created_at) or ""),
    ]
    if task.run_id is not None:
        lines.append(("run", short(str(task.run_id))))
    if task.finished_at is not None:
        lines.append(("finished", _instant(task.finished_at) or ""))
    if task.error:
        lines.append(("error", _first(task.error) or ""))
    return lines


def _attempt(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: _instant(row[name]) for name in ("started_at", "ended_at")}
    return {**row, **times}


def _attempt_row(row: dict[str, Any]) -> dict[str, Any]:
    took = None
    if row["ended_at"] is not None:
        took = duration(round((row["ended_at"] - row["started_at"]).total_seconds() * 1000))
    return {
        **row,
        "attempt": row["attempt"],
        "started": _instant(row["started_at"]),
        "took": took,
        "outcome": (row["outcome"] or "running").replace("_", " "),
        "error": _first(row["error"]),
    }


def _first(error: Any) -> str | None:
    """The first line of an error's message."""
    message = str((error or {}).get("message", ""))
    return message.splitlines()[0] if message else None


def _instant(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else None
