"""The queue in PostgreSQL: a table, and notifications for those who wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.task.queue import Handler, Message, QueueBlocked, Wake
from tallyman.registry.database import Database, Transaction
from tallyman.registry.task.wakeups import CHANNEL, Wakeups

T = TypeVar("T")

POLL_S = 1.0
"""How often a waiting receiver looks by itself: a notification may be lost."""
MOST_DROPPED = 50
"""How many messages that lead to nothing are dropped before the time is looked at again."""

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
# Which queue has the most urgent message: one look at the index for each.
URGENT = """
    SELECT q AS queue FROM unnest(%(queues)s::text[]) AS q CROSS JOIN LATERAL (
        SELECT priority, id FROM queue_messages WHERE queue = q AND visible_at <= clock_timestamp()
        ORDER BY priority DESC, id LIMIT 1
    ) AS first ORDER BY first.priority DESC, first.id
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
        return self._until(lambda: self._handle_some(queues, handler), wait_s)

    def _until(self, look: Callable[[], tuple[T | None, bool]], wait_s: float) -> T | None:
        """Look until there is something, or the time is over; wait for notifications in between,
        unless the look says that there is more to look at."""
        until = time.monotonic() + wait_s
        while True:
            seen = self._wakeups.position()
            found, more = look()
            left = until - time.monotonic()
            if found is not None or left <= 0 or self._wakeups.closed:
                return found
            if not more:
                self._wakeups.wait(seen, min(left, POLL_S))

    def _handle_some(self, queues: Sequence[str], handler: Handler[T]) -> tuple[T | None, bool]:
        """Have messages handled until one leads to something; true if some were left."""
        blocked: set[str] = set()
        for _ in range(MOST_DROPPED):
            there, found = self._handle([q for q in queues if q not in blocked], handler, blocked)
            if found is not None or not there:
                return found, False
        return None, True

    def _handle(
        self, queues: Sequence[str], handler: Handler[T], blocked: set[str]
    ) -> tuple[bool, T | None]:
        """Have one message handled; false if there is none. Add its queue to those blocked if the
        handler says so: then the message stays."""
        queue = ""
        try:
            with self._database.transaction() as tx:
                for queue in _by_urgency(tx, queues):
                    row = tx.execute(TAKE, {"queue": queue}).fetchone()
                    if row is not None:
                        found = handler(tx, UUID(row["payload"]["task_id"]))
                        if found is None:
                            tx.execute(NOT_DURABLE)
                        return True, found
        except QueueBlocked:
            blocked.add(queue)
            return True, None
        return False, None

    def _take(self, queues: Sequence[str], hidden_s: float) -> tuple[Message | None, bool]:
        with self._database.transaction() as tx:
            tx.execute(NOT_DURABLE)
            for queue in _by_urgency(tx, queues):
                row = tx.execute(RECEIVE, {"queue": queue, "hidden": hidden_s}).fetchone()
                if row is not None:
                    task = UUID(row["payload"]["task_id"])
                    return Message(str(row["id"]), str(row["receipt"]), task), False
        return None, False

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


def _by_urgency(tx: Transaction, queues: Sequence[str]) -> Sequence[str]:
    """List the queues that have messages, that with the most urgent one first."""
    if len(queues) <= 1:
        return queues
    rows: list[dict[str, Any]] = tx.execute(URGENT, {"queues": list(queues)}).fetchall()
    return [row["queue"] for row in rows]


def depth(tx: Transaction) -> dict[str, int]:
    return {row["queue"]: row["n"] for row in tx.execute(DEPTH).fetchall()}
