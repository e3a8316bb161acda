"""Events and their listeners: an event is added once, and only then makes tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.task.event import Event, Producer
from tallyman.domain.task.task import TaskTemplate
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

ADD = """
    INSERT INTO events (id, org, project, producer_task, attempt, dataset, version, scope,
                        scope_text)
    SELECT id, %(org)s, %(project)s, %(producer)s, %(attempt)s, dataset, version, scope, scope_text
    FROM jsonb_to_recordset(%(events)s) AS e (
        id uuid, dataset uuid, version uuid, scope jsonb, scope_text text)
    ON CONFLICT DO NOTHING   -- an earlier attempt, or an earlier call, emitted it
    RETURNING id
"""
LISTEN = """
    INSERT INTO listeners (org, project, dataset, kind, asset, pool, template, held_by)
    VALUES (%(org)s, %(project)s, %(dataset)s, %(kind)s, %(asset)s, %(pool)s, %(template)s,
            %(held_by)s)
    ON CONFLICT (org, project, dataset, kind, asset)
        DO UPDATE SET template = excluded.template, pool = excluded.pool,
                      held_by = excluded.held_by
"""
KEEP = """
    DELETE FROM listeners l
    WHERE l.org = %(org)s AND l.project = %(project)s AND l.kind = %(kind)s
      AND NOT EXISTS (
          SELECT FROM unnest(%(datasets)s::uuid[], %(assets)s::text[]) k (dataset, asset)
          WHERE k.dataset = l.dataset AND k.asset = l.asset)
"""
OF_CONSUMER = """
    SELECT DISTINCT ON (asset) asset, template, held_by FROM listeners
    WHERE org = %(org)s AND project = %(project)s AND kind = %(kind)s AND asset = ANY(%(assets)s)
    ORDER BY asset, dataset
"""
LISTENERS = """
    SELECT dataset, template, held_by FROM listeners
    WHERE org = %(org)s AND dataset = ANY(%(datasets)s)
    ORDER BY project, kind, asset
    FOR SHARE   -- a deployment that begins to hold them waits, and then sees these tasks
"""
# An event is needed as long as its producer may emit it again.
REMOVE = """
    DELETE FROM events WHERE id IN (
        SELECT e.id FROM events e
        WHERE e.created_at < clock_timestamp() - make_interval(secs => %(older)s)
          AND NOT EXISTS (SELECT FROM tasks t WHERE t.id = e.producer_task)
        ORDER BY e.created_at LIMIT %(limit)s
    )
"""


class Events:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, producer: Producer, events: Sequence[Event]) -> list[Event]:
        """Add the events that are not there yet, and return those."""
        by_id = {event.id(producer.id): event for event in events}
        given = {
            **producer.owner.key,
            "producer": producer.id,
            "attempt": producer.attempt,
            "events": Jsonb([_row(key, event) for key, event in by_id.items()]),
        }
        added = {row["id"] for row in self.tx.execute(ADD, given).fetchall()}
        return [event for key, event in by_id.items() if key in added]

    def remove_old(self, older_than_s: float, limit: int) -> int:
        """Remove a batch of events of that age whose producer was removed."""
        return self.tx.execute(REMOVE, {"older": older_than_s, "limit": limit}).rowcount


class Listeners:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, dataset: UUID, template: TaskTemplate, *, held_by: str | None = None) -> None:
        """Let events of a dataset make tasks from the template; replaces what was there."""
        given: dict[str, Any] = {
            "org": template.org,
            "project": template.project,
            "dataset": dataset,
            "kind": template.kind,
            "asset": template.asset,
            "pool": template.pool,
            "template": Jsonb(template.to_json()),
            "held_by": held_by,
        }
        self.tx.execute(LISTEN, given)

    def keep(self, owner: Owner, kind: str, listening: Sequence[tuple[UUID, str]]) -> None:
        """Remove all listeners of a pipeline for one kind of task, but these datasets and
        assets."""
        given = owner.key | {"kind": kind, "datasets": [dataset for dataset, _ in listening]}
        self.tx.execute(KEEP, given | {"assets": [asset for _, asset in listening]})

    def of_consumers(
        self, owner: Owner, kind: str, assets: Sequence[str]
    ) -> dict[str, tuple[TaskTemplate, str | None]]:
        """Return the template of each of the assets that listens to anything, with who holds its
        tasks."""
        given = owner.key | {"kind": kind, "assets": list(assets)}
        rows = self.tx.execute(OF_CONSUMER, given).fetchall()
        return {
            row["asset"]: (TaskTemplate.of_json(row["template"]), row["held_by"]) for row in rows
        }

    def of(
        self, org: str, datasets: Sequence[UUID]
    ) -> dict[UUID, list[tuple[TaskTemplate, str | None]]]:
        """Return the listeners of each dataset, each with who holds its tasks."""
        found: dict[UUID, list[tuple[TaskTemplate, str | None]]] = {}
        given = {"org": org, "datasets": list(datasets)}
        for row in self.tx.execute(LISTENERS, given).fetchall():
            template = TaskTemplate.of_json(row["template"])
            found.setdefault(row["dataset"], []).append((template, row["held_by"]))
        return found


def _row(id: UUID, event: Event) -> dict[str, Any]:
    return {
        "id": str(id),
        "dataset": str(event.dataset),
        "version": str(event.version) if event.version else None,
        "scope": event.scope.to_json(),
        "scope_text": event.scope.text,
    }
