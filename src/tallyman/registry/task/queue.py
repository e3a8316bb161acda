"""The queue in PostgreSQL: a table, and notifications for those who wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.task.queue import Handler, Message, Wake
from tallyman.registry.database import Database, Transaction
from tallyman.registry.task.wakeups import CHANNEL, Wakeups

T = TypeVar("T")

POLL_S = 1.0
"""How often a waiting receiver looks by itself: a notification may be lost."""

# A message may be lost, so nobody waits for the disk.
NOT_DURABLE = "SET LOCAL synchronous_commit = off"
# A task has one message: another wake-up makes it visible again, and its old receipt is void.
SEND = """
    INSERT INTO queue_messages (queue, payload, priority)
    SELECT queue, payload, priority
    FROM jsonb_to_recordset(%(messages)s) AS m (queue text, payload jsonb, priority smallint)
    ON CONFLICT ((payload ->> 'task_id'))
        DO UPDATE SET visible_at = clock_timestamp(), receipt = NULL, queue = excluded.queue
"""
NOTIFY = "SELECT pg_notify(%(channel)s, '')"
RECEIVE = """
    UPDATE queue_messages
    SET receipt = gen_random_uuid(), deliveries = deliveries + 1,
        visible_at = clock_timestamp() + make_interval(secs => %(hidden)s)
    WHERE id = (
        SELECT id FROM queue_messages WHERE queue = %(queue)s AND visible_at <= clock_timestamp()
        ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id, receipt, payload
"""
# Whoever handles a message holds its lock: it is gone when that has an effect, and not before.
TAKE = """
    DELETE FROM queue_messages WHERE id = (
        SELECT id FROM queue_messages WHERE queue = %(queue)s AND visible_at <= clock_timestamp()
        ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING payload
"""
EXTEND = """
    UPDATE queue_messages
    SET visible_at = clock_timestamp() + make_interval(secs => %(hidden)s)
    WHERE id = %(id)s AND receipt = %(receipt)s
"""
ACKNOWLEDGE = "DELETE FROM queue_messages WHERE id = %(id)s AND receipt = %(receipt)s"
DEPTH = "SELECT queue, count(*) AS n FROM queue_messages GROUP BY queue ORDER BY queue"


class PostgresQueue:
    def __init__(self, database: Database, wakeups: Wakeups | None = None) -> None:
        self._database = database
        self._wakeups = wakeups or Wakeups(database)

    def send(self, wakes: Sequence[Wake]) -> None:
        # One message per task, in one order: two senders do not deadlock.
        by_task = {wake.task: wake for wake in sorted(wakes, key=lambda wake: wake.task)}
        messages = [
            {"queue": w.queue, "payload": {"task_id": str(w.task)}, "priority": w.priority}
            for w in by_task.values()
        ]
        with self._database.transaction() as tx:
            tx.execute(NOT_DURABLE)
            tx.execute(SEND, {"messages": Jsonb(messages)})
            tx.execute(NOTIFY, {"channel": CHANNEL})

    def receive(self, queues: Sequence[str], *, hidden_s: float, wait_s: float) -> Message | None:
        return self._until(lambda: self._take(queues, hidden_s), wait_s)

    def deliver(self, queues: Sequence[str], handler: Handler[T], *, wait_s: float) -> T | None:
        return self._until(lambda: self._handle(queues, handler), wait_s)

    def _until(self, look: Callable[[], T | None], wait_s: float) -> T | None:
        """Look until there is something; wait for notifications in between."""
        until = time.monotonic() + wait_s
        while True:
            seen = self._wakeups.position()
            found = look()
            left = until - time.monotonic()
            if found is not None or left <= 0 or self._wakeups.closed:
                return found
            self._wakeups.wait(seen, min(left, POLL_S))

    def _handle(self, queues: Sequence[str], handler: Handler[T]) -> T | None:
        with self._database.transaction() as tx:
            for queue in queues:
                row = tx.execute(TAKE, {"queue": queue}).fetchone()
                if row is not None:
                    return handler(tx, UUID(row["payload"]["task_id"]))
        return None

    def _take(self, queues: Sequence[str], hidden_s: float) -> Message | None:
        with self._database.transaction() as tx:
            tx.execute(NOT_DURABLE)
            for queue in queues:
                row = tx.execute(RECEIVE, {"queue": queue, "hidden": hidden_s}).fetchone()
                if row is not None:
                    task = UUID(row["payload"]["task_id"])
                    return Message(str(row["id"]), str(row["receipt"]), task)
        return None

    def extend(self, message: Message, hidden_s: float) -> bool:
        given = {"id": int(message.id), "receipt": message.receipt, "hidden": hidden_s}
        with self._database.transaction() as tx:
            tx.execute(NOT_DURABLE)
            return tx.execute(EXTEND, given).rowcount == 1

    def acknowledge(self, message: Message) -> bool:
        given = {"id": int(message.id), "receipt": message.receipt}
        with self._database.transaction() as tx:
            tx.execute(NOT_DURABLE)
            return tx.execute(ACKNOWLEDGE, given).rowcount == 1

    def close(self) -> None:
        """Let waiting receivers go, and stop listening."""
        self._wakeups.close()


def depth(tx: Transaction) -> dict[str, int]:
    return {row["queue"]: row["n"] for row in tx.execute(DEPTH).fetchall()}
