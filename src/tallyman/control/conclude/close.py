"""Close a run: publish it, export its files, write its report and last events, and seal it. Every
run ends here, whoever made its targets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from uuid import UUID, uuid4

from tallyman import faults
from tallyman.control.conclude import ended, exports, finish
from tallyman.control.publish import discard
from tallyman.control.publish.of_run import publish_run
from tallyman.control.seal.seal import place, seal_of
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status, run_status
from tallyman.domain.history.seal import Seal
from tallyman.domain.version.commit import Commit
from tallyman.engine.files.run_folder import RunFolder
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import Conflict, ExportFailed, RunTaken, StorageFailed, TallymanError
from tallyman.faults import Point
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.locks import Alone, alone
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.seals import Seals
from tallyman.registry.version.commits import Commits
from tallyman.settings import Settings

Sign: TypeAlias = Callable[[Seal], Seal]
Publish: TypeAlias = Callable[[], Commit | None]
Events: TypeAlias = list[LineageEvent]
Closed: TypeAlias = tuple[RunResult, TallymanError | None]
"""The result of a run, and why it could not be published or exported."""


@dataclass(frozen=True, slots=True)
class RunCloser:
    """Closes one run: one that is running and has nothing left to be made, or one whose end a
    person changed, by a decision or a cancel. May be repeated: a process can die at any point."""

    database: Database
    settings: Settings
    run: RunRecord
    actor: str
    sign: Sign

    def close(
        self,
        publish: Publish | None = None,
        events: Callable[[RunResult], Events] | None = None,
        *,
        trouble: TallymanError | None = None,
        canceled: bool = False,
        keep_attempts: bool = False,
    ) -> Closed:
        """Close the run. Without `publish` it is published already, or could not be because of
        `trouble`. `events` writes the last events to the run's folder and returns them."""
        run, home = self.run, self.settings.home
        result, rows = self._result(canceled=canceled)
        if self._held and result.status is Status.CANCELED:
            discard.remove(self.database.durably(self._discard))
            result, rows = self._result(canceled=True)
        began = time.monotonic()
        result, trouble = self._published(result, publish, trouble)
        took = {"phase": "publishing", "ms": round((time.monotonic() - began) * 1000)}
        folder, timings = RunFolder.open(home / run.folder), [took] if publish else []
        if self._held:
            finish.set_aside(folder, finish.ENDS)  # of an earlier end, or of one that died here
        finish.write(folder, run.identity, result, rows, timings, keep_attempts=keep_attempts)
        last = events(result) if events else ended.last_events(home, run, result)
        sealed, key = seal_of(home, run, result, rows), uuid4()
        self.database.durably(lambda tx: self._seal(tx, sealed, last, key))
        faults.reach(Point.SEALED)
        place(self.database, home, run.owner)
        return result, trouble

    @property
    def _held(self) -> bool:
        """True if the run has not ended yet."""
        return self.run.status is Status.RUNNING

    def _result(self, *, canceled: bool) -> tuple[RunResult, list[Materialization]]:
        rows = self.database.durably(lambda tx: Materializations(tx).of_run(self.run.id))
        return finish.result(self.run, rows, canceled=canceled), rows

    def _discard(self, tx: Transaction) -> list[Path]:
        """Discard the trace of the run, because it was canceled."""
        Runs(tx).hold(self.run.id, self.run.executor)
        return discard.mark(tx, self.settings.home, self.run)

    def _published(
        self, result: RunResult, publish: Publish | None, trouble: TallymanError | None
    ) -> Closed:
        """Publish the whole run at once, and export it. Return a conflict or storage error instead
        of raising it."""
        database, run, settings = self.database, self.run, self.settings
        new = self._held and result.status is not Status.CANCELED
        try:
            if trouble is not None:
                raise trouble
            if publish and new:
                commit = publish()
            else:
                commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
            result = result.with_commit(commit)
            faults.reach(Point.COMMITTED)
            if commit is not None and (new or result.status is Status.SUCCESS):
                made = exports.made_in(database, settings.home, run)
                exports.export(exports.records_of(settings), run.name, made)
        except RunTaken:
            raise
        except (Conflict, ExportFailed) as found:
            trouble = found
        except OSError as error:
            trouble = StorageFailed(f"publishing {run.name}", str(error))
        else:
            return result, None
        status = Status.FAILED if self._held else result.status
        return replace(result, status=status, error=trouble.facts()), trouble

    def _seal(self, tx: Transaction, sealed: Seal, events: Events, key: UUID) -> None:
        """End the run, seal it and spool its events."""
        run, status = self.run, Status(sealed.status)
        if self._held:
            Runs(tx).finish(run.id, run.executor, status)
            Audit(tx, run.owner).add(f"run.{status}", self.actor, run.name, run=run.id, key=key)
        Seals(tx).add(run.owner, sealed, run.id, self.sign)
        ended.spool(tx, run, events)

    def decided(self, result: RunResult) -> Closed:
        """Apply decisions that were made while the run was being closed. The caller has no lock."""
        run, database = self.run, self.database
        if result.status is not Status.WAITING:
            return result, None
        warehouse = Warehouse(self.settings.warehouse_folder, run.owner)
        now = database.durably(lambda tx: conclude(tx, run.id, self.actor, warehouse))
        if now.status is Status.WAITING:
            return result, None
        trouble = close_again(database, self.settings, run.id, self.sign)
        return result_of(database, now), trouble


def result_of(database: Database, run: RunRecord) -> RunResult:
    """Build the result of a run from the registry, with the status that it has."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
    return replace(finish.result(run, rows), status=run.status, commit=commit)


def close_again(
    database: Database, settings: Settings, run: UUID, sign: Sign
) -> TallymanError | None:
    """Close a run again after a decision or a cancel. Two at once do so one after the other."""
    with alone(database, Alone.CLOSING, str(run), wait=True):
        return close_ended(database, settings, run, sign)


def close_ended(
    database: Database, settings: Settings, run: UUID, sign: Sign
) -> TallymanError | None:
    """Close a run again, for a caller who has the lock. Skip a running run: it is closed when it
    ends."""
    now = database.durably(lambda tx: Runs(tx).by_id(run))
    if now.status is Status.RUNNING or not (settings.home / now.folder).is_dir():
        return None
    return RunCloser(database, settings, now, settings.actor, sign).close()[1]


def conclude(
    tx: Transaction, run: UUID, actor: str, warehouse: Warehouse | None = None
) -> RunRecord:
    """Set the status of a waiting run after a decision, and publish the run if nothing else
    waits."""
    Runs(tx).lock(run)  # otherwise it could end meanwhile, and wait for what is decided
    rows = Materializations(tx).of_run(run)
    status = run_status({finish.result_of(row).status for row in rows})
    decided = Runs(tx).conclude(run, status)
    record = Runs(tx).by_id(run)
    if decided:
        Audit(tx, record.owner).add(f"run.{status.value}", actor, str(run), run=run)
    if record.status is Status.SUCCESS and warehouse is not None:
        publish_run(tx, warehouse, record, actor)
    return record
