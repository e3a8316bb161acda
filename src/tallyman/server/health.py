"""Health for load balancers, and figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse

from tallyman.errors import DatabaseUnavailable
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tallyman.server.dispatcher import Dispatcher, Dispatching
from tallyman.server.problems import problem

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=None)
def readyz(dispatcher: Dispatching) -> dict[str, Any] | JSONResponse:
    """The database answers, the loops run, and the server is not about to end; and how many
    tasks the workers that call it can do at once, by pipeline."""
    if dispatcher.draining.is_set():
        return problem(503, "draining", "the server is about to end")
    if not dispatcher.loops.alive:
        return problem(503, "loops_stopped", "a loop of the dispatcher has ended")
    try:
        with dispatcher.database.transaction() as tx:
            tx.execute("SELECT 1")
    except DatabaseUnavailable as error:
        return problem(503, error.code, str(error))
    return {"status": "ready", "workers": dispatcher.presence.counts()}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(dispatcher: Dispatching) -> PlainTextResponse:
    """Figures in the text format of Prometheus."""
    text = "\n".join(_lines(dispatcher)) + "\n"
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _lines(dispatcher: Dispatcher) -> Iterator[str]:
    with dispatcher.database.transaction() as tx:
        tasks, queued, pools = Tasks(tx).counts(), Tasks(tx).queued(), Pools(tx).use()
    yield from _series("tasks", "gauge", "Tasks by status", "status", tasks)
    yield from _series("tasks_queued", "gauge", "Tasks that may be claimed", "pool", queued)
    used = {f"{row['org']}/{row['project']}/{row['pool']}": row["used"] for row in pools}
    there = {f"{row['org']}/{row['project']}/{row['pool']}": row["slots"] for row in pools}
    yield from _series("pool_slots", "gauge", "Slots of a pool", "pool", there)
    yield from _series("pool_slots_used", "gauge", "Taken slots of a pool", "pool", used)
    here = dispatcher.presence.counts()
    yield from _series("workers", "gauge", "Workers that called lately", "pipeline", here)
    loops = dispatcher.loops.loops
    for name, what in (("taken", "Steps"), ("found", "Rows"), ("errors", "Failed steps")):
        counts = {loop.name: int(getattr(loop, name)) for loop in loops.values()}
        yield from _series(f"loop_{name}_total", "counter", f"{what} of a loop", "loop", counts)


def _series(
    name: str, kind: str, help: str, label: str, values: Mapping[str, int]
) -> Iterator[str]:
    yield f"# HELP tallyman_{name} {help}."
    yield f"# TYPE tallyman_{name} {kind}"
    for key, value in values.items():
        quoted = key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'tallyman_{name}{{{label}="{quoted}"}} {value}'
