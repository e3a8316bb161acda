"""`tallyman server`: hand out tasks to workers, on this machine and on others."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tallyman.cli.terminal.log import logging_to_terminal
from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import counted
from tallyman.errors import UsageError
from tallyman.on_demand import OnDemand
from tallyman.project import Project
from tallyman.server.local_workers import LocalWorkers
from tallyman.settings import DATABASE_VARIABLE, KEY_VARIABLE, Secret

if TYPE_CHECKING:
    from tallyman.server import serve
else:
    serve = OnDemand("tallyman.server.serve")

log = logging.getLogger("tallyman.server")

MOST_WORKERS = 64
IDLE_CONNECTIONS = 32
"""Connections to the database that a server keeps: as many calls may need one at once."""
NOT_FOR_WORKERS = (DATABASE_VARIABLE, KEY_VARIABLE)


def server(
    bind: Annotated[
        str,
        typer.Option(help="Where workers reach it: host:port on this machine, or unix:path."),
    ] = "127.0.0.1:7401",
    workers: Annotated[
        int,
        typer.Option(help="How many workers to run on this machine, each with a task at a time."),
    ] = 1,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Hand out tasks to workers, here and on other machines.

    Runs until Ctrl-C or SIGTERM. Then no task is begun any more, the workers that it started finish
    theirs, and it ends; a second Ctrl-C ends it at once, and other workers take over after 30
    seconds. A worker that dies is started again. Several servers may work on one database at the
    same time. `/healthz`, `/readyz` and `/metrics` are for load balancers and Prometheus.
    """
    if not 0 <= workers <= MOST_WORKERS:
        raise UsageError(f"--workers is a number from 0 to {MOST_WORKERS}, not {workers}")
    found = opened(project)
    found.database.most_idle = IDLE_CONNECTIONS
    found.workers.ensure_default_pool()
    with logging_to_terminal(as_json=json_output), found.workers.token_of_server() as token:
        drained = _served(found, bind, workers, token)
    raise typer.Exit(0 if drained else 130)


def _served(found: Project, bind: str, workers: int, token: Secret) -> bool:
    """Serve until a signal; False if a second one cut it short."""
    here: list[LocalWorkers] = []

    def ready(address: str) -> None:
        _say_where(found, address, workers)
        here.append(LocalWorkers(_command(address), token, workers, _environment()))
        here[0].start()

    def leave() -> None:
        log.info("ending: tasks that have begun are finished; Ctrl-C again ends at once")
        for one in here:
            one.drain()

    targets = found.workers.targets()
    drained = serve.serve(found.database, bind, ready=ready, leave=leave, targets=targets)
    for one in here:
        one.kill()
    log.info("ended" if drained else "ended at once: its tasks are taken over after 30 s")
    return drained


def _say_where(found: Project, address: str, workers: int) -> None:
    name, place = found.settings.name, found.database.place
    facts = {"address": address, "project": name, "workers": workers, "process": os.getpid()}
    log.info(
        "%s listens at %s, %s here   database: %s",
        name, address, counted(workers, "worker"), place, extra={"facts": facts},
    )  # fmt: skip
    if found.settings.server is None:
        log.info("runs by its workers:  TALLYMAN_SERVER=%s tallyman run", address)
    log.info("another worker:  tallyman worker --server %s --token-file FILE", address)
    log.info("to end it: Ctrl-C or SIGTERM; it finishes the tasks that have begun")


def _command(address: str) -> list[str]:
    """The command of a worker on this machine: the token comes on stdin."""
    program = [sys.executable, "-P", "-m", "tallyman.cli.main", "worker"]
    return [*program, "--server", address, "--token-file", "-", "--with-server"]


def _environment() -> dict[str, str]:
    """The variables of a worker: none that leads to the database or to keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_FOR_WORKERS and not name.startswith("PG")
    }
