"""Operations on tasks: cancel, hold, release, retry, and decide about waiting ones."""

from __future__ import annotations

from uuid import UUID

from tallyman.domain.task.state import Transition, sources
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction
from tallyman.registry.task.wakeups import notify

# A task that nobody works on is canceled at once; a running one is asked to stop.
# One update decides: after waiting for a claim, it sees the status that the claim left.
CANCEL = """
    UPDATE tasks
    SET status = CASE WHEN status = 'Running' THEN status ELSE 'Canceled' END,
        next_retry_at = NULL,
        finished_at = CASE WHEN status <> 'Running' THEN clock_timestamp() END,
        cancel_requested_at = CASE WHEN status = 'Running'
            THEN coalesce(cancel_requested_at, clock_timestamp()) ELSE cancel_requested_at END
    WHERE id = %(id)s AND (status IN ('Queued', 'Waiting', 'Running')
                           OR (status = 'Failed' AND next_retry_at IS NOT NULL))
    RETURNING id
"""
HOLD = """
    UPDATE tasks SET held_by = %(by)s
    WHERE org = %(org)s AND project = %(project)s AND id = ANY(%(ids)s)
      AND status IN ('Queued', 'Failed') AND finished_at IS NULL AND held_by IS NULL
"""
RELEASE = """
    UPDATE tasks SET held_by = NULL
    WHERE org = %(org)s AND project = %(project)s AND held_by = %(by)s
      AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s))
    RETURNING id
"""
# The lease of a canceled attempt ends for good: it must not complete what begins again.
RETRY = """
    UPDATE tasks
    SET status = 'Queued', failures = 0, attempts_before = attempt, next_retry_at = NULL,
        finished_at = NULL, error = NULL, cancel_requested_at = NULL,
        lease_token = CASE WHEN status = 'Canceled' THEN NULL ELSE lease_token END
    WHERE id = %(id)s AND status = ANY(%(sources)s)
    RETURNING id
"""
# The attempt that asked has ended: only the decision goes on from here.
DECIDE = """
    UPDATE tasks
    SET status = CASE WHEN %(approved)s THEN 'Queued' ELSE 'Failed' END, lease_token = NULL,
        finished_at = CASE WHEN NOT %(approved)s THEN clock_timestamp() END,
        error = CASE WHEN NOT %(approved)s THEN
            jsonb_build_object('code', 'checkpoint_rejected', 'message', %(reason)s::text) END
    WHERE id = %(id)s AND status = ANY(%(sources)s)
    RETURNING id
"""


class Operations:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def cancel(self, task: UUID) -> bool:
        """Cancel the task, or ask its worker to stop; False if it has ended."""
        return self.tx.execute(CANCEL, {"id": task}).fetchone() is not None

    def hold(self, owner: Owner, tasks: list[UUID], by: str) -> int:
        """Keep workers from claiming the tasks; return how many are held now."""
        given = owner.key | {"ids": tasks, "by": by}
        return self.tx.execute(HOLD, given).rowcount

    def release(self, owner: Owner, by: str, tasks: list[UUID] | None = None) -> list[UUID]:
        """Let go of the tasks that `by` holds, all or those given, and return them."""
        given = owner.key | {"by": by, "ids": tasks}
        released = [row["id"] for row in self.tx.execute(RELEASE, given).fetchall()]
        notify(self.tx, released)
        return released

    def retry(self, task: UUID) -> bool:
        """Queue a task again that ended without success; False if it did not."""
        given = {"id": task, "sources": sources(Transition.RETRY)}
        queued = self.tx.execute(RETRY, given).fetchone() is not None
        notify(self.tx, [task])
        return queued

    def decide(self, task: UUID, *, approved: bool, reason: str) -> bool:
        """Let a waiting task go on or fail; False if it does not wait."""
        given = {"id": task, "approved": approved, "reason": reason}
        given |= {"sources": sources(Transition.APPROVE if approved else Transition.REJECT)}
        decided = self.tx.execute(DECIDE, given).fetchone() is not None
        notify(self.tx, [task])
        return decided
