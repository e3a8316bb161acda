"""`tallyman pools`: how many tasks run at once, and the environment each gets."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened, pairs
from tallyman.cli.terminal.output import answer, as_json, counted, out, table
from tallyman.errors import UsageError
from tallyman.registry.task.pools import PoolState

pools = typer.Typer(
    help="List and set pools: how many tasks run at once, and with what.",
    invoke_without_command=True,
)
OF_SLOT = re.compile(r"(\d+):(.*)", re.S)


@pools.callback()
@pools.command(
    help="List pools with their slots and tasks; of variables only the names.",
    epilog="Example:  tallyman pools ls --json",
)
def ls(context: typer.Context, project: ProjectFolder = None, json_output: AsJson = False) -> None:
    if context.invoked_subcommand is not None:
        return
    found = opened(project).workers.pools()
    if json_output:
        as_json([_facts(pool) for pool in found])
    elif found:
        table(
            [_row(pool) for pool in found],
            ("pool", "slots", "taken", "running", "queued", "variables"),
        )
    else:
        out.print(
            "no pools yet: the first server makes 'default', in which any number of tasks run"
        )


@pools.command(
    "set", epilog="Example:  tallyman pools set api --slots 2 --env 0:KEY=a --env 1:KEY=b"
)
def set_pool(
    name: Annotated[str, typer.Argument(help="The pool that assets name with pool=.")],
    slots: Annotated[
        int | None, typer.Option(help="How many of its tasks run at once, on all workers together.")
    ] = None,
    unlimited: Annotated[
        bool, typer.Option("--unlimited", help="Any number: workers are the only limit.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="A variable for the tasks, NAME=VALUE for all slots, or N:NAME=VALUE for the slot "
            "with this number, from 0; repeatable. Replaces all that were set."
        ),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Make a pool, or change how many of its tasks run at once.

    Takes effect with the next task, without a restart. Refused if a slot that would go is taken.
    """
    if (slots is None) != unlimited:
        raise UsageError("give --slots N or --unlimited")
    if unlimited and env:
        raise UsageError("--env is for slots; an unlimited pool has none")
    environments = None if slots is None else _environments(slots, env or [])
    part = opened(project).workers
    part.set_pool(name, environments)
    [pool] = [pool for pool in part.pools() if pool.name == name]
    count = "any number of tasks" if slots is None else counted(slots, "task")
    answer(_facts(pool), f"pool {name}: {count} at once", json_output)


def _environments(count: int, given: list[str]) -> list[dict[str, str]]:
    """One environment for each slot."""
    found: list[dict[str, str]] = [{} for _ in range(max(count, 0))]
    for text in given:
        one = OF_SLOT.fullmatch(text)
        variables = pairs([one[2] if one else text], "--env")
        if one is None:
            for env in found:
                env.update(variables)
        elif int(one[1]) < count:
            found[int(one[1])].update(variables)
        else:
            raise UsageError(f"--env: there is no slot {one[1]}: they are 0 to {count - 1}")
    return found


def _facts(pool: PoolState) -> dict[str, Any]:
    slots = pool.slots
    return {
        "pool": pool.name,
        "slots": None if slots is None else len(slots),
        "taken": None if slots is None else sum(slot.task_id is not None for slot in slots),
        "running": pool.running,
        "queued": pool.queued,
        "variables": sorted({name for slot in slots or () for name in slot.variables}),
    }


def _row(pool: PoolState) -> dict[str, Any]:
    found = _facts(pool)
    limited = pool.slots is not None
    return found | {
        "slots": str(found["slots"]) if limited else "any",
        "taken": str(found["taken"]) if limited else "",
        "variables": ", ".join(found["variables"]),
    }
