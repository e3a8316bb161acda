"""The worker: as many claims at once as it has places, until it has to drain."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence

from tallyman.domain.task.task import TARGET
from tallyman.errors import CallRefused, ServerUnavailable, TallymanError
from tallyman.worker.attempt import Attempt
from tallyman.worker.client import ServerClient
from tallyman.worker.warm_children import DEFAULT_LIMITS, ChildLimits, WarmChildren

log = logging.getLogger("tallyman.worker")

WAIT_S = 2.0
"""How long a claim waits on the server for a task: a worker that drains waits no longer."""
PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
CLAIM = "/internal/task-claim"
ENTRIES = {TARGET: "tallyman.worker.target:work"}
"""For each kind of task, the function that does it in a child, as `module:function`."""


class Worker:
    """Runs tasks of the pools. `entries` are such as ENTRIES; `confined` lists the kinds whose
    function is code of users."""

    def __init__(
        self,
        client: ServerClient,
        entries: Mapping[str, str],
        pools: Sequence[str],
        *,
        concurrency: int = 1,
        limits: ChildLimits = DEFAULT_LIMITS,
        confined: Sequence[str] = (),
    ) -> None:
        self._client, self._entries, self._pools = client, dict(entries), list(pools)
        # Not used twice: the server gives a task of this name back to whoever has the name.
        self._name = (
            f"{ascii(socket.gethostname())[1:-1][:99]}-{os.getpid()}-{secrets.token_hex(4)}"
        )
        self._confined = frozenset(confined)
        self._children = WarmChildren(concurrency, limits)
        self._drain = threading.Event()
        self._refused: TallymanError | None = None
        self._threads = [
            threading.Thread(target=self._work, args=(place,), name=f"place-{place}")
            for place in range(concurrency)
        ]

    def run(self) -> None:
        """Work until `drain` is called and the tasks that have begun are done. Raises what the
        server says if it refuses this worker."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        self._children.close()
        if self._refused is not None:
            raise self._refused

    @property
    def draining(self) -> bool:
        return self._drain.is_set()

    def drain(self) -> None:
        """Claim nothing more. What was claimed is finished and reported."""
        self._drain.set()

    def _work(self, place: int) -> None:
        pause, lost = PAUSE_S, False
        me = {"worker_id": f"{self._name}-{place}", "pools": self._pools, "wait_s": WAIT_S}
        # A claim without an answer may have had success: ask again before leaving.
        while lost or not self._drain.is_set():
            begun = time.monotonic()
            try:
                answer = self._client.post(CLAIM, {**me, "answer_lost": lost})
            except ServerUnavailable as error:
                log.warning("%s", error)
                lost = not self._drain.is_set()
                self._drain.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
                continue
            except CallRefused as refused:
                self._refused = refused
                self._drain.set()
                return
            pause, lost = PAUSE_S, False
            if answer["status"] == "Claimed":
                kind = answer["task"]["kind"]
                try:
                    attempt = Attempt(self._client, self._children, answer)
                    attempt.run(self._entries.get(kind), confined=kind in self._confined)
                except Exception:  # the place goes on: the lease of the task ends by itself
                    log.exception("task %s could not be done", answer["task"]["task_id"])
                    self._drain.wait(PAUSE_S)
                continue
            self._children.tend()
            if time.monotonic() - begun < PAUSE_S:
                # The server could not let this call wait: too many others do.
                self._drain.wait(PAUSE_S)
        self._client.close()
