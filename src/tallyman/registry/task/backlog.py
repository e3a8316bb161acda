"""The backlog: how much work there is for workers, and how long it has waited."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

# Of finished tasks only those that failed count, and only those that are kept.
COUNT = """
    SELECT count(*) FILTER (WHERE status = 'Queued' AND held_by IS NULL) AS queued,
           count(*) FILTER (WHERE status = 'Running') AS running,
           count(*) FILTER (WHERE status = 'Waiting') AS waiting,
           count(*) FILTER (WHERE status = 'Failed' AND next_retry_at IS NOT NULL) AS retrying,
           count(*) FILTER (WHERE finished_at IS NULL AND held_by IS NOT NULL) AS held,
           count(*) FILTER (WHERE status = 'Failed' AND next_retry_at IS NULL) AS failed,
           extract(epoch FROM clock_timestamp() - min(created_at)
               FILTER (WHERE status = 'Queued' AND held_by IS NULL))::float AS oldest_s
    FROM tasks
    WHERE org = %(org)s AND project = %(project)s
      AND status IN ('Queued', 'Running', 'Waiting', 'Failed')
      AND (%(asset)s::text IS NULL OR asset = %(asset)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    queued: int
    running: int
    waiting: int
    """Tasks that wait for a person."""
    retrying: int
    """Tasks between two attempts."""
    held: int
    failed: int
    """Tasks that failed for good."""
    oldest_s: float | None
    """How long the oldest queued task has waited."""

    @property
    def empty(self) -> bool:
        return not (self.queued or self.running or self.waiting or self.retrying or self.held)

    def __str__(self) -> str:
        named = {"queued": self.queued, "running": self.running, "waiting": self.waiting}
        named |= {"to be tried again": self.retrying, "held": self.held, "failed": self.failed}
        parts = [f"{count:,} {word}" for word, count in named.items() if count]
        text = ", ".join(parts) or "none"
        return text if self.oldest_s is None else f"{text}, oldest for {self.oldest_s:,.0f} s"

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def backlog(tx: Transaction, owner: Owner, asset: str | None = None) -> Backlog:
    """Count the tasks of a pipeline, or of one asset, that have not ended or have failed."""
    row = tx.execute(COUNT, owner.key | {"asset": asset}).fetchone()
    assert row is not None
    return Backlog(**row)
