"""Cancel runs: by their own process, by force, or after they failed."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import uuid4

from tallyman.control.conclude import close, ended, process
from tallyman.control.publish import discard
from tallyman.control.seal.signature import signer
from tallyman.domain.history.materialization import RunMadeBy, RunRecord
from tallyman.domain.history.run import Status
from tallyman.errors import NotRunning
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.runs import Runs
from tallyman.settings import Settings


def cancel(database: Database, settings: Settings, run: RunRecord, timeout_s: float) -> Status:
    """Ask the run's process to stop; after the timeout, cancel the run by force. A run that failed
    or was killed is canceled at once."""

    def ask(tx: Transaction) -> bool:
        if Runs(tx).request_cancel(run.id):
            Audit(tx, run.owner).add("run.cancel_requested", settings.actor, run.name, run=run.id)
            return True
        return False

    if not database.durably(ask):
        return _give_up(database, settings, run)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = database.durably(lambda tx: Runs(tx).by_id(run.id))
        if now.status is not Status.RUNNING:
            return now.status
        if process.is_gone(now):
            break
        time.sleep(0.2)
    return _take_away(database, settings, run, timeout_s)


def _take_away(database: Database, settings: Settings, run: RunRecord, timeout_s: float) -> Status:
    actor = settings.actor

    def work(tx: Transaction) -> tuple[Status, ended.Released]:
        runs = Runs(tx)
        now = runs.by_id(run.id)
        who = (
            "its tasks were not ended"
            if now.made_by is RunMadeBy.TASKS
            else "its process did not stop"
        )
        why = f"canceled by {actor}; {who} in {timeout_s:g} s"
        released = ended.release(tx, settings.home, now, why, canceled=True)
        Audit(tx, run.owner).add(
            "run.canceled", actor, run.name, run=run.id, details={"forced": True}
        )
        return released.status or runs.by_id(run.id).status, released

    status, released = database.durably(work)
    ended.record(settings.home, released)
    return status


def _give_up(database: Database, settings: Settings, run: RunRecord) -> Status:
    """Cancel a run that no process executes: discard its trace, and write its report again."""
    sign = database.durably(lambda tx: signer(tx, settings))
    key = uuid4()

    def work(tx: Transaction) -> tuple[RunRecord, list[Path]]:
        Runs(tx).lock(run.id)
        before = Runs(tx).by_id(run.id)
        if before.removed_at is not None or not Runs(tx).give_up(run.id):
            raise NotRunning(run.name, before.status.value)
        details = {"was": before.status.value}
        Audit(tx, run.owner).add(
            "run.canceled", settings.actor, run.name, run=run.id, details=details, key=key
        )
        return Runs(tx).by_id(run.id), discard.mark(tx, settings.home, run)

    canceled, places = database.durably(work)
    discard.remove(places)
    close.close_again(database, settings, run.id, sign)
    return canceled.status
