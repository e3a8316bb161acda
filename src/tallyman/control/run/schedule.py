"""Run work in dependency order, with a limit on parallel jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Node = TypeVar("Node")


def in_order(
    needs: Mapping[Node, set[Node]], work: Callable[[Node], bool], jobs: int, *, go_on: bool = True
) -> None:
    """Run `work` on each node after the nodes it needs; `work` returns True on success. Dependents
    of a failed node are left out; if `go_on` is False, nothing new starts after the first
    failure."""
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
    except BaseException:
        # On an interrupt, do not wait for running Spark jobs.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
