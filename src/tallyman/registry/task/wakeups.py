"""Wake-ups: whoever makes a task claimable notifies the servers with its commit, and each server
wakes one claim that waits. They only shorten the wait: a claim looks again by itself."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import psycopg

from tallyman import faults
from tallyman.domain.task.task import Task, queue_name
from tallyman.domain.version.owner import Owner
from tallyman.errors import DatabaseUnavailable
from tallyman.registry.database import Database, Transaction
from tallyman.registry.server.address import connect

T = TypeVar("T")

CHANNEL = "tallyman_tasks"
PAUSE_S = 0.5
"""How long the listening thread waits before it connects again."""

# The message is the id of a task and nothing else. Other tasks of the same transaction need no
# second one: a claim that was woken and got a task wakes the next.
NOTIFY = f"""
    SELECT set_config('tallyman.woken', 'yes', true),
           pg_notify('{CHANNEL}', jsonb_build_object('task_id', id)::text)
    FROM (SELECT id FROM tasks
          WHERE %s AND status = 'Queued' AND held_by IS NULL
            AND coalesce(current_setting('tallyman.woken', true), '') = '' LIMIT 1)
"""
NOTIFY_TASKS = NOTIFY % "id = ANY(%(tasks)s)"
NOTIFY_QUEUE = NOTIFY % "queue = %(queue)s"
WITH_WORK = """
    SELECT name FROM unnest(%(queues)s::text[]) AS name
    WHERE EXISTS (SELECT FROM tasks
                  WHERE queue = name AND status = 'Queued' AND held_by IS NULL)
"""


def notify(tx: Transaction, tasks: Sequence[UUID]) -> None:
    """Notify the servers, once this transaction is committed, that one of these tasks, if any, can
    be claimed now; once for each transaction."""
    if tasks:
        tx.execute(NOTIFY_TASKS.encode(), {"tasks": list(tasks)})


def notify_pool(tx: Transaction, owner: Owner, pool: str) -> None:
    """Notify the servers that there is place for a task that waits in the pool, if one does."""
    tx.execute(NOTIFY_QUEUE.encode(), {"queue": queue_name(owner, pool)})


def notify_next(tx: Transaction, ended: Task) -> None:
    """Notify the servers if the end of a task made a place free that another may wait for."""
    if ended.limited or ended.max_concurrency is not None:
        notify_pool(tx, Owner(ended.org, ended.project), ended.pool)


class Waiter:
    """A claim that looks for a task, and waits between two looks."""

    def __init__(self, queues: frozenset[str], lock: threading.Lock) -> None:
        self.queues, self._lock = queues, lock
        self.woken = set[str]()
        """The queues that it was woken for, and has not looked at since."""
        self._bell = threading.Event()

    def ring(self, *queues: str) -> None:
        self.woken.update(queues)
        self._bell.set()

    def wait(self, timeout: float) -> None:
        self._bell.wait(timeout)

    def look(self, work: Callable[[], T | None]) -> T | None:
        """Look for a task. After one was found there may be more, for somebody else."""
        with self._lock:
            self._bell.clear()
            before, self.woken = self.woken, set()
        found = work()
        if found is not None:
            self.woken |= before
        return found


class Wakeups:
    """The claims that wait at this server, and one connection that listens for all of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._bell = socket.socketpair()

    @contextmanager
    def waiting(self, owner: Owner, pools: Sequence[str]) -> Iterator[Waiter]:
        """Count a claim among those to be woken, from before its first look on: what is committed
        meanwhile is not missed."""
        waiter = Waiter(frozenset(queue_name(owner, pool) for pool in pools), self._lock)
        with self._lock:
            self._waiters.append(waiter)
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._listen, name="wakeups", daemon=True)
                self._thread.start()
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.remove(waiter)
            for queue in waiter.woken:
                self.wake(queue)

    def wake(self, queue: str) -> None:
        """Wake one claim that waits for the queue: if possible, one that nothing else woke."""
        with self._lock:
            there = [waiter for waiter in self._waiters if queue in waiter.queues]
            if there:
                next((one for one in there if not one.woken), there[0]).ring(queue)

    @property
    def closed(self) -> bool:
        return self._ended.is_set()

    def close(self) -> None:
        """Let waiting claims go, and stop listening."""
        self._ended.set()
        with self._lock:
            for waiter in self._waiters:
                waiter.ring()
            listening = self._thread
        self._bell[0].close()
        if listening is not None:
            listening.join()
        self._bell[1].close()

    # ---- the listening thread ----------------------------------------------------------------

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                with connect(self._database.url(), self._database.place) as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    self._wake(connection)  # something may have come while nobody listened
                    self._hear(connection)
            except (psycopg.Error, DatabaseUnavailable):
                self._ended.wait(PAUSE_S)

    def _hear(self, connection: Transaction) -> None:
        while not self._ended.is_set():
            select.select((connection.fileno(), self._bell[1]), (), ())
            # Others may come while it is looked up who can take the first.
            while not self._ended.is_set() and list(connection.notifies(timeout=0)):
                faults.reach(faults.Point.NOTIFIED)
                self._wake(connection)

    def _wake(self, connection: Transaction) -> None:
        """Wake one claim for each pool in which tasks wait: a notification names one task of those
        that its transaction made."""
        with self._lock:
            queues = list({queue for waiter in self._waiters for queue in waiter.queues})
        for row in connection.execute(WITH_WORK, {"queues": queues}).fetchall():
            self.wake(row["name"])
