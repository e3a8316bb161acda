"""Circuit breakers: targets whose newest result found an input that cannot be read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

CLOSED = "breaker.closed"
"""The event of the audit log that closes the breakers of an asset."""
OPEN = """
    SELECT asset, partition, run, since, reason FROM (
        SELECT DISTINCT ON (m.asset_name, coalesce(m.partition, ''))
            m.asset_name AS asset, m.partition, r.name AS run, m.completed_at AS since,
            m.completion, coalesce(m.error_message, '') AS reason,
            m.metadata #>> '{error,code}' AS code
        FROM materializations m JOIN runs r ON r.id = m.run_id
        WHERE m.org = %(org)s AND m.project = %(project)s AND m.status IN ('success', 'failed')
        ORDER BY m.asset_name, coalesce(m.partition, ''), m.completion DESC
    ) AS newest
    WHERE code = 'structural_error' AND NOT EXISTS (
        SELECT FROM audit_log a
        WHERE a.org = %(org)s AND a.project = %(project)s
          AND a.event_type = %(closed)s AND a.resource = newest.asset
          AND a.at > newest.since
    )
    ORDER BY completion
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBreaker:
    asset: str
    partition: str | None
    run: str
    since: datetime
    reason: str


class Breakers:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def open(self, owner: Owner) -> list[OpenBreaker]:
        """List the breakers that tripped and were not closed since, oldest first."""
        rows = self.tx.execute(OPEN, owner.key | {"closed": CLOSED}).fetchall()
        return [OpenBreaker(**row) for row in rows]

    def first_open(self, owner: Owner, assets: Collection[str]) -> OpenBreaker | None:
        return next((one for one in self.open(owner) if one.asset in assets), None)
