"""Upkeep: close runs whose process died, and expire approvals that nobody answered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from tallyman.control.conclude import finish, process
from tallyman.control.seal import seal
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import RunResult, Status, run_status
from tallyman.domain.history.seal import Seal
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.run_folder import RunFolder
from tallyman.errors import SigningKeyUnusable
from tallyman.on_demand import OnDemand
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.locks import Alone, alone
from tallyman.registry.run.approvals import Approvals
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.seals import Seals
from tallyman.registry.version.commits import Commits
from tallyman.settings import Settings

if TYPE_CHECKING:
    from tallyman.control.conclude import ended
    from tallyman.control.seal import signature
else:
    ended = OnDemand("tallyman.control.conclude.ended")
    signature = OnDemand("tallyman.control.seal.signature")

Sign: TypeAlias = Callable[[Seal], Seal]


def upkeep(database: Database, settings: Settings) -> None:
    """Bring runs up to date before a command looks at them."""
    for released in database.durably(lambda tx: _release_gone(tx, settings)):
        ended.record(settings.home, released)
    # Without the signing key, leave expired approvals to a command that has the key.
    with contextlib.suppress(SigningKeyUnusable):
        concluded = database.durably(lambda tx: _expire(tx, settings))
        for run, sign in {run.id: (run, sign) for run, sign in concluded}.values():
            with contextlib.suppress(OSError):  # the next command retries it below
                rewrite_report(database, settings.home, run, sign)
        _finish_decided(database, settings)
    seal.place(database, settings.home, settings.owner)


def _release_gone(tx: Transaction, settings: Settings) -> list[ended.Released]:
    found = []
    for run in Runs(tx).list(settings.owner, status=Status.RUNNING, limit=1000):
        if not process.is_gone(run):
            continue
        why = f"its process died ({run.executor_node})"
        released = ended.release(tx, settings.home, run, why)
        if released.status is not None:
            details = {"node": run.executor_node, "seen_by": settings.actor}
            event = f"run.{released.status.value}"
            Audit(tx, run.owner).add(event, "tallyman", run.name, run=run.id, details=details)
            found.append(released)
    return found


def _expire(tx: Transaction, settings: Settings) -> list[tuple[RunRecord, Sign]]:
    questions = Approvals(tx).expire(settings.owner)
    if not questions:
        return []
    concluded: list[tuple[RunRecord, Sign]] = []
    sign = signature.signer(tx, settings)
    for question in questions:
        target = Target(question["asset"], question["partition"])
        message = f"nobody decided before {question['timeout_at']:%Y-%m-%d %H:%M:%S %Z}"
        facts = {"code": "approval_expired", "message": message}
        Materializations(tx).decide(
            question["run_id"], target, Status.FAILED, message, {"error": facts}
        )
        details = {"target": str(target), "seen_by": settings.actor}
        Audit(tx, settings.owner).add(
            "approval.expired", "tallyman", str(target), run=question["run_id"], details=details
        )
        concluded.append((conclude(tx, question["run_id"], "tallyman"), sign))
    return concluded


def _finish_decided(database: Database, settings: Settings) -> None:
    """Write the report, last event and seal of runs whose process died right after a decision."""
    for run in database.durably(lambda tx: Seals(tx).left_waiting(settings.owner)):
        sign = database.durably(lambda tx: signature.signer(tx, settings))
        record = database.durably(lambda tx, run=run: Runs(tx).by_id(run))
        # A folder that cannot be written must not block other commands.
        with contextlib.suppress(OSError), alone(database, Alone.CLOSING, str(run)) as held:
            left = database.durably(lambda tx: Seals(tx).left_waiting(settings.owner))
            if held and run in left:
                _rewrite(database, settings.home, record, sign)


def conclude(tx: Transaction, run: UUID, actor: str) -> RunRecord:
    """Recompute the run's status after a decision, unless the run is still running."""
    rows = Materializations(tx).of_run(run)
    status = run_status({finish.result_of(row).status for row in rows})
    decided = Runs(tx).conclude(run, status)
    record = Runs(tx).by_id(run)
    if decided:
        Audit(tx, record.owner).add(f"run.{status.value}", actor, str(run), run=run)
    return record


def result_of(database: Database, run: RunRecord) -> RunResult:
    """Build the result of an ended run from the registry."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
    results = finish.results_in(rows)
    return RunResult(
        run_id=run.name, status=run.status, folder=run.folder, assets=results, commit=commit
    )


def rewrite_report(database: Database, project: Path, run: RunRecord, sign: Sign) -> None:
    """Write the report again after a decision. Two decisions at once are handled one after the
    other."""
    with alone(database, Alone.CLOSING, str(run.id), wait=True):
        now = database.durably(lambda tx: Runs(tx).by_id(run.id))
        _rewrite(database, project, now, sign)


def _rewrite(database: Database, project: Path, run: RunRecord, sign: Sign) -> None:
    """Write report, events and seal. Skip a running run: its own process writes the report when it
    ends."""
    if run.status is Status.RUNNING or not (project / run.folder).is_dir():
        return
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    folder = RunFolder.open(project / run.folder)
    commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
    result = finish.conclude(run.identity, rows, run.folder).with_commit(commit)
    if run.status is Status.CANCELED:  # also if all that it made succeeded and was not published
        result = replace(result, status=run.status)
    finish.write(folder, run.identity, result, rows)
    events = ended.concluded(project, run, result)
    ended.record(project, ended.Released(run, run.status, events))
    sealed = seal.seal_of(project, run, result, rows)

    def work(tx: Transaction) -> None:
        Seals(tx).add(run.owner, sealed, run.id, sign)
        ended.spool(tx, run, events)

    database.durably(work)
    seal.place(database, project, run.owner)
