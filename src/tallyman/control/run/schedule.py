"""Run work in dependency order, with a limit on parallel jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Node = TypeVar("Node")
PATIENCE = 10
"""Seconds to wait after Ctrl-C for work that is asked to end."""


def in_order(
    needs: Mapping[Node, set[Node]],
    work: Callable[[Node], bool],
    jobs: int,
    halt: Callable[[], None],
    *,
    go_on: bool = True,
) -> None:
    """Run `work` on each node after the nodes it needs; `work` returns True on success. Dependents
    of a failed node are left out; if `go_on` is False, nothing new starts after the first
    failure. On Ctrl-C, `halt` makes running work end."""
    waiting = {node: set(before) for node, before in needs.items()}
    running: dict[Future[bool], Node] = {}
    stopped = False
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="tallyman-target")
    try:
        while True:
            ready = [] if stopped else [n for n, before in waiting.items() if not before]
            for node in ready[: jobs - len(running)]:
                del waiting[node]
                running[pool.submit(work, node)] = node
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                node = running.pop(future)
                if not future.result():
                    stopped = stopped or not go_on
                    continue
                for before in waiting.values():
                    before.discard(node)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        _ended(running, halt)
        raise
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _ended(running: Mapping[Future[bool], Node], halt: Callable[[], None]) -> None:
    """Wait a little for running work: Spark could write to a folder that was removed already."""
    for _ in range(PATIENCE):
        with contextlib.suppress(Exception):  # Spark may have been stopped by the same signal
            halt()  # again each time: a job that starts just after an interrupt must stop too
        if not wait(running, timeout=1).not_done:
            return
