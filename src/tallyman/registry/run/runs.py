"""Runs: started, kept alive by their executor, ended once; taken over only if the executor died."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.history.materialization import RunMadeBy, RunRecord
from tallyman.domain.history.options import RunParams
from tallyman.domain.history.run import Status
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound, RunBusy, RunExists, RunTaken, UsageError
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction

LEASE = "30 seconds"
"""How long a run may be silent before another machine considers its executor dead."""

COLUMNS = """
    id, name, org, project, status, folder, actor, started_at, params, pins, executor,
    executor_node,
    coalesce(lease_until < clock_timestamp(), false) AS lease_expired,
    cancel_requested_at, completed_at, removed_at, removed_by
"""
ADD = """
    INSERT INTO runs (id, name, org, project, params, pins, folder, actor, executor, executor_node,
                      lease_until, started_at)
    VALUES (%(id)s, %(name)s, %(org)s, %(project)s, %(params)s, %(pins)s, %(folder)s,
            %(actor)s, %(executor)s, %(node)s, clock_timestamp() + %(lease)s::interval,
            %(started_at)s)
    ON CONFLICT DO NOTHING
"""
HOLD = """
    SELECT FROM runs WHERE id = %(id)s AND executor = %(executor)s
    FOR SHARE   -- a process that takes over the run waits for this write
"""
LOCK = """
    SELECT FROM runs WHERE id = %(id)s
    FOR UPDATE   -- waits for a write of the executor that has begun
"""
BEAT = """
    UPDATE runs SET lease_until = clock_timestamp() + %(lease)s::interval
    WHERE id = %(id)s AND executor = %(executor)s   -- no row: another process has the run now
    RETURNING cancel_requested_at IS NOT NULL AS cancel
"""
FINISH = """
    UPDATE runs
    SET status = %(status)s, executor = NULL, lease_until = NULL,
        completed_at = clock_timestamp(), updated_at = now()
    WHERE id = %(id)s AND executor = %(executor)s
"""
CLAIM = """
    UPDATE runs
    SET status = 'running', executor = %(executor)s, executor_node = %(node)s, params = %(params)s,
        lease_until = clock_timestamp() + %(lease)s::interval, cancel_requested_at = NULL,
        completed_at = NULL, updated_at = now()
    WHERE id = %(id)s AND (status <> 'running' OR executor = %(executor)s)
"""
# A run of tasks holds itself: any server may write to it, and no lease ends it.
HAND_OVER = """
    UPDATE runs
    SET executor = id, executor_node = %(node)s, lease_until = NULL, updated_at = now()
    WHERE id = %(id)s AND executor IN (%(executor)s, id)
"""
REOPEN = """
    UPDATE runs
    SET status = 'running', executor = id, executor_node = %(node)s, lease_until = NULL,
        cancel_requested_at = NULL, completed_at = NULL, updated_at = now()
    WHERE id = %(id)s AND status <> 'running' AND removed_at IS NULL
"""
PLAN_AGAIN = """
    UPDATE runs SET pins = %(pins)s, params = %(params)s, updated_at = now() WHERE id = %(id)s
"""
RELEASE = """
    UPDATE runs
    SET status = CASE WHEN cancel_requested_at IS NULL THEN 'interrupted' ELSE 'canceled' END,
        executor = NULL, lease_until = NULL, completed_at = clock_timestamp(), updated_at = now()
    WHERE id = %(id)s AND executor = %(executor)s   -- not if it changed since it was read
    RETURNING status
"""
LET_GO_OF_TARGETS = """
    UPDATE materializations
    SET status = %(status)s, error_message = %(why)s, completed_at = clock_timestamp(),
        completion = nextval('completions'), updated_at = now()
    WHERE run_id = %(id)s AND status = 'running'
"""
REQUEST_CANCEL = """
    UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
    WHERE id = %(id)s AND status = 'running'
"""
GIVE_UP = """
    UPDATE runs SET status = 'canceled', completed_at = clock_timestamp(), updated_at = now()
    WHERE id = %(id)s AND status IN ('failed', 'halted', 'interrupted')
"""
CONCLUDE = """
    UPDATE runs SET status = %(status)s, completed_at = clock_timestamp(), updated_at = now()
    WHERE id = %(id)s AND status = 'waiting_approval'
"""
FIND = f"""
    SELECT {COLUMNS} FROM runs
    WHERE org = %(org)s AND project = %(project)s
      AND (name = %(wanted)s OR folder = %(wanted)s OR folder LIKE '%%/' || %(wanted)s)
"""
BY_ID = f"SELECT {COLUMNS} FROM runs WHERE id = %(id)s"
FIND_PREFIX = f"""
    SELECT {COLUMNS} FROM runs
    WHERE org = %(org)s AND project = %(project)s AND starts_with(name, %(wanted)s)
    ORDER BY seq DESC LIMIT 5
"""
LIST = f"""
    SELECT {COLUMNS} FROM runs
    WHERE org = %(org)s AND project = %(project)s
      AND (%(status)s::text IS NULL OR status = %(status)s)
      AND (%(meta)s::jsonb IS NULL OR params -> 'meta' @> %(meta)s::jsonb)
    ORDER BY seq DESC LIMIT %(limit)s
"""


class Runs:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, run: RunRecord) -> None:
        """Add a run. The same executor may repeat this after a lost reply; another one gets
        RunExists."""
        given = run.owner.key | {
            "id": run.id,
            "name": run.name,
            "params": Jsonb(to_plain(run.params)),
            "pins": Jsonb({str(dataset): ordinal for dataset, ordinal in run.pins.items()}),
            "folder": run.folder,
            "actor": run.actor[:255],
            "executor": run.executor,
            "node": run.executor_node,
            "lease": LEASE,
            "started_at": run.started_at,
        }
        self.tx.execute(ADD, given)
        if not self.tx.execute(HOLD, {"id": run.id, "executor": run.executor}).rowcount:
            raise RunExists(run.name)

    def hold(self, run: UUID, executor: UUID | None) -> None:
        """Check that the executor still holds the run, at the start of every write; else raise
        RunTaken."""
        if not self.tx.execute(HOLD, {"id": run, "executor": executor}).rowcount:
            raise RunTaken(str(run))

    def lock(self, run: UUID) -> None:
        """Keep every executor from writing until the transaction ends."""
        self.tx.execute(LOCK, {"id": run})

    def beat(self, run: UUID, executor: UUID | None) -> bool:
        """Renew the lease. True if somebody asked to cancel the run."""
        given = {"id": run, "executor": executor, "lease": LEASE}
        row = self.tx.execute(BEAT, given).fetchone()
        if row is None:
            raise RunTaken(str(run))
        return bool(row["cancel"])

    def finish(self, run: UUID, executor: UUID | None, status: Status) -> None:
        """End the run. May be repeated: the reply to the first try may have been lost."""
        given = {"id": run, "executor": executor, "status": status.value}
        if self.tx.execute(FINISH, given).rowcount:
            return
        now = self.by_id(run)
        if now.status is not status:
            raise RunTaken(now.name)

    def claim(self, run: RunRecord) -> None:
        """Take over a run for its new executor, or raise RunBusy if a process holds it."""
        given = {"id": run.id, "executor": run.executor, "node": run.executor_node, "lease": LEASE}
        given |= {"params": Jsonb(to_plain(run.params))}
        if not self.tx.execute(CLAIM, given).rowcount:
            raise RunBusy(run.name, self.by_id(run.id).executor_node or "another process")

    def hand_over(self, run: UUID, executor: UUID | None) -> None:
        """Let tasks execute a run that this executor holds. May be repeated."""
        given = {"id": run, "executor": executor, "node": RunMadeBy.TASKS}
        if not self.tx.execute(HAND_OVER, given).rowcount:
            raise RunTaken(str(run))

    def reopen(self, run: UUID) -> bool:
        """Let tasks execute a run that has ended; False if it is running or was removed."""
        return bool(self.tx.execute(REOPEN, {"id": run, "node": RunMadeBy.TASKS}).rowcount)

    def plan_again(self, run: UUID, pins: Mapping[UUID, int], params: RunParams) -> None:
        """Let a run of which nothing is made yet read other versions, by other options."""
        listed = Jsonb({str(dataset): ordinal for dataset, ordinal in pins.items()})
        given = {"id": run, "pins": listed, "params": Jsonb(to_plain(params))}
        self.tx.execute(PLAN_AGAIN, given)

    def release(self, run: RunRecord, why: str, *, canceled: bool = False) -> Status | None:
        """Take the run from an executor that died or does not stop. None if the run has moved
        on."""
        if canceled:
            self.request_cancel(run.id)
        row = self.tx.execute(RELEASE, {"id": run.id, "executor": run.executor}).fetchone()
        if row is None:
            return None
        status = Status(row["status"])
        ended = "canceled" if status is Status.CANCELED else "failed"
        self.tx.execute(LET_GO_OF_TARGETS, {"id": run.id, "status": ended, "why": why})
        return status

    def request_cancel(self, run: UUID) -> bool:
        return bool(self.tx.execute(REQUEST_CANCEL, {"id": run}).rowcount)

    def give_up(self, run: UUID) -> bool:
        """Cancel a run that ended without success; False if it is in another state."""
        return bool(self.tx.execute(GIVE_UP, {"id": run}).rowcount)

    def conclude(self, run: UUID, status: Status) -> bool:
        """Set the status after a decision on a waiting run; False while the run is running."""
        return bool(self.tx.execute(CONCLUDE, {"id": run, "status": status.value}).rowcount)

    # ---- queries ----------------------------------------------------------------------------

    def get(self, wanted: str, owner: Owner) -> RunRecord:
        """Find a run by name, unique prefix, folder, or `latest`."""
        if wanted == "latest":
            found = self.list(owner, limit=1)
        else:
            name = owner.key | {"wanted": wanted.rstrip("/")}
            rows = self.tx.execute(FIND, name).fetchall()
            rows = rows or self.tx.execute(FIND_PREFIX, name).fetchall()
            found = [_record(row) for row in rows]
        if len(found) > 1:
            raise UsageError(f"run {wanted!r} is not unique: {', '.join(r.name for r in found)}")
        if not found:
            known = [run.name for run in self.list(owner, limit=1000)]
            raise NotFound("run", wanted, nearest(wanted, known))
        return found[0]

    def by_id(self, run: UUID) -> RunRecord:
        row = self.tx.execute(BY_ID, {"id": run}).fetchone()
        if row is None:
            raise NotFound("run", str(run))
        return _record(row)

    def list(
        self,
        owner: Owner,
        *,
        status: Status | None = None,
        limit: int = 20,
        meta: Mapping[str, str] | None = None,
    ) -> list[RunRecord]:
        """List runs, newest first."""
        given = owner.key | {
            "status": status.value if status else None,
            "limit": limit,
            "meta": Jsonb(dict(meta)) if meta else None,
        }
        return [_record(row) for row in self.tx.execute(LIST, given).fetchall()]


def _record(row: Mapping[str, Any]) -> RunRecord:
    found = dict(row)
    return RunRecord(
        owner=Owner(found.pop("org"), found.pop("project")),
        status=Status(found.pop("status")),
        params=of_plain(RunParams, found.pop("params")),
        pins={UUID(dataset): ordinal for dataset, ordinal in found.pop("pins").items()},
        **found,
    )
