"""The spool: OpenLineage events in the order they happened, until somebody took them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.lineage_event import LineageEvent
from tallyman.registry.database import Transaction

ADD = """
    INSERT INTO lineage_events (key, project, run_id, event_type, job, body)
    VALUES (%(key)s, %(project)s, %(run)s, %(type)s, %(job)s, %(body)s)
    ON CONFLICT (key) DO NOTHING
"""


class Spool:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, project: str, run: UUID, events: Iterable[LineageEvent]) -> None:
        """In the transaction of what they tell of: neither is there without the other."""
        for event in events:
            given: dict[str, Any] = {
                "key": event.key,
                "project": project,
                "run": run,
                "type": event.type,
                "job": event.job,
                "body": Jsonb(dict(event.body)),
            }
            self.tx.execute(ADD, given)
