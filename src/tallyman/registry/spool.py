"""The spool: OpenLineage events in the order they happened, until the receiver has taken them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database
from tallyman.registry.locks import Alone, alone
from tallyman.registry.server.address import Transaction

KNOWS = "SELECT FROM lineage_events WHERE run_id = %(run)s LIMIT 1"
ADD = """
    INSERT INTO lineage_events (key, org, project, run_id, event_type, job, body)
    VALUES (%(key)s, %(org)s, %(project)s, %(run)s, %(type)s, %(job)s, %(body)s)
    ON CONFLICT (key) DO NOTHING
"""
OF_OWNER = "org = %(org)s AND project = %(project)s"
WAITS = f"{OF_OWNER} AND sent_at IS NULL AND refused_at IS NULL"
NEXT = f"SELECT id, body FROM lineage_events WHERE {WAITS} ORDER BY id LIMIT 1"
WAITING = f"SELECT count(*) AS n FROM lineage_events WHERE {WAITS}"
SENT = """
    UPDATE lineage_events
    SET sent_at = clock_timestamp(), refused_at = NULL, attempts = attempts + 1,
        body = NULL, last_error = NULL
    WHERE id = %(id)s AND sent_at IS NULL
"""
FAILED = """
    UPDATE lineage_events SET attempts = attempts + 1, last_error = %(reason)s
    WHERE id = %(id)s AND sent_at IS NULL
"""
REFUSED = """
    UPDATE lineage_events
    SET attempts = attempts + 1, last_error = %(reason)s, refused_at = clock_timestamp()
    WHERE id = %(id)s AND sent_at IS NULL
"""
TAKE_BACK = f"""
    UPDATE lineage_events SET refused_at = NULL
    WHERE {OF_OWNER} AND refused_at IS NOT NULL
"""
STATE = f"""
    SELECT count(*) FILTER (WHERE {WAITS}) AS waiting,
           min(created_at) FILTER (WHERE {WAITS}) AS oldest_at,
           count(sent_at) AS sent,
           max(sent_at) AS last_sent_at,
           count(refused_at) AS refused
    FROM lineage_events WHERE {OF_OWNER}
"""
LAST_ERROR = f"""
    SELECT last_error, attempts FROM lineage_events
    WHERE {WAITS} AND last_error IS NOT NULL ORDER BY id LIMIT 1
"""
REFUSALS = """
    SELECT e.id, e.event_type, e.job, r.name AS run, e.last_error AS reason, e.refused_at
    FROM lineage_events e JOIN runs r ON r.id = e.run_id
    WHERE e.org = %(org)s AND e.project = %(project)s
      AND e.refused_at IS NOT NULL ORDER BY e.id LIMIT %(limit)s
"""
# Keep a run's last event: it shows that the run has events. Keep all events of a run that has not
# ended: it may emit them again, and repeats are recognized only while they are here.
DONE_WITH = """
    e.org = %(org)s AND e.project = %(project)s
    AND e.sent_at <= clock_timestamp() - make_interval(secs => %(older)s)
    AND EXISTS (SELECT FROM lineage_events l WHERE l.run_id = e.run_id AND l.id > e.id)
    AND NOT EXISTS (SELECT FROM runs r WHERE r.id = e.run_id
                    AND r.status IN ('running', 'waiting_approval'))
"""
COUNT_DONE_WITH = f"SELECT count(*) AS n FROM lineage_events e WHERE {DONE_WITH}"
REMOVE_DONE_WITH = f"DELETE FROM lineage_events e WHERE {DONE_WITH}"


@dataclass(frozen=True, slots=True)
class Spooled:
    """An event that waits to be sent."""

    id: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolState:
    waiting: int
    oldest_at: datetime | None
    """The time of the oldest waiting event."""
    sent: int
    last_sent_at: datetime | None
    refused: int
    attempts: int = 0
    """The number of failed tries of the first waiting event."""
    last_error: str | None = None


class Spool:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def knows(self, run: UUID) -> bool:
        """True if the run has any event."""
        return self.tx.execute(KNOWS, {"run": run}).fetchone() is not None

    def add(self, owner: Owner, run: UUID, events: Iterable[LineageEvent]) -> None:
        """Add events in the transaction of the change they describe."""
        for event in events:
            given: dict[str, Any] = owner.key | {
                "key": event.key,
                "run": run,
                "type": event.type,
                "job": event.job,
                "body": Jsonb(dict(event.body)),
            }
            self.tx.execute(ADD, given)

    # ---- sending: with sole_sender(…) as spool ----------------------------------------------

    def next(self, owner: Owner) -> Spooled | None:
        """Return the first waiting event. A run's later events have higher numbers, because each is
        added after the earlier one was committed."""
        row = self.tx.execute(NEXT, owner.key).fetchone()
        return Spooled(row["id"], row["body"]) if row else None

    def sent(self, id: int) -> None:
        """Mark an event as sent and drop its body: the receiver and the run folder have it."""
        self.tx.execute(SENT, {"id": id})

    def failed(self, id: int, reason: str) -> None:
        """Record a failed try; the event keeps its position."""
        self.tx.execute(FAILED, {"id": id, "reason": reason})

    def refused(self, id: int, reason: str) -> None:
        """Mark an event as refused, so that later events can be sent."""
        self.tx.execute(REFUSED, {"id": id, "reason": reason})

    def take_back(self, owner: Owner) -> int:
        """Queue refused events again, at their old position; return their number."""
        return self.tx.execute(TAKE_BACK, owner.key).rowcount

    # ---- cleaning up ------------------------------------------------------------------------

    def done_with(self, owner: Owner, older_than_s: float) -> int:
        """Count the events that were sent that long ago and are no longer needed."""
        given = owner.key | {"older": older_than_s}
        row = self.tx.execute(COUNT_DONE_WITH, given).fetchone()
        return int(row["n"]) if row else 0

    def remove_done_with(self, owner: Owner, older_than_s: float) -> int:
        """Remove those events and return their number. Waiting and refused events stay."""
        given = owner.key | {"older": older_than_s}
        return self.tx.execute(REMOVE_DONE_WITH, given).rowcount

    # ---- queries ----------------------------------------------------------------------------

    def waiting(self, owner: Owner) -> int:
        row = self.tx.execute(WAITING, owner.key).fetchone()
        return int(row["n"]) if row else 0

    def state(self, owner: Owner) -> SpoolState:
        counts = self.tx.execute(STATE, owner.key).fetchone() or {}
        error = self.tx.execute(LAST_ERROR, owner.key).fetchone() or {}
        return SpoolState(**counts, **error)

    def refusals(self, owner: Owner, *, limit: int = 20) -> list[dict[str, Any]]:
        """List refused events in order, with the receiver's reason."""
        return self.tx.execute(REFUSALS, owner.key | {"limit": limit}).fetchall()


@contextmanager
def sole_sender(database: Database, owner: Owner) -> Iterator[Spool | None]:
    """Yield the spool to the only process that may send now; None if another one is sending.

    A sender that loses the connection cannot mark its last event: the next one sends it again.
    """
    with alone(database, Alone.SENDING, str(owner)) as connection:
        yield None if connection is None else Spool(connection)
