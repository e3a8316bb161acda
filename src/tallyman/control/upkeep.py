"""What time alone changes: processes that are gone, questions that nobody answered."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from tallyman.control import finish, process, seal
from tallyman.domain.materialization import RunRecord
from tallyman.domain.run import RunIdentity, RunResult, Status, run_status
from tallyman.domain.target import Target
from tallyman.engine.run_folder import RunFolder
from tallyman.registry.approvals import Approvals
from tallyman.registry.audit import Audit
from tallyman.registry.commits import Commits
from tallyman.registry.database import Database, Transaction
from tallyman.registry.materializations import Materializations
from tallyman.registry.runs import Runs
from tallyman.registry.seals import Seals


def upkeep(database: Database, project: str, home: Path, actor: str) -> None:
    """Done before a command looks at runs, so that it sees them as they are."""
    database.durably(lambda tx: _release_gone(tx, project, actor))
    for run in database.durably(lambda tx: _expire(tx, project, actor)):
        rewrite_report(database, home, run)
    seal.place(database, home, project)


def _release_gone(tx: Transaction, project: str, actor: str) -> None:
    for run in Runs(tx).list(project, status=Status.RUNNING, limit=1000):
        if not process.is_gone(run):
            continue
        why = f"the process that ran it is gone ({run.executor_node})"
        status = Runs(tx).release(run, why)
        if status is not None:
            details = {"node": run.executor_node, "seen_by": actor}
            Audit(tx).add(f"run.{status.value}", "tallyman", run.name, run=run.id, details=details)


def _expire(tx: Transaction, project: str, actor: str) -> list[RunRecord]:
    settled = []
    for question in Approvals(tx).expire(project):
        target = Target(question["asset"], question["partition"])
        message = f"nobody decided before {question['timeout_at']:%Y-%m-%d %H:%M:%S %Z}"
        facts = {"code": "approval_expired", "message": message}
        Materializations(tx).decide(
            question["run_id"], target, Status.FAILED, message, {"error": facts}
        )
        details = {"target": str(target), "seen_by": actor}
        Audit(tx).add(
            "approval.expired", "tallyman", str(target), run=question["run_id"], details=details
        )
        settled.append(settle(tx, question["run_id"], "tallyman"))
    return settled


def settle(tx: Transaction, run: UUID, actor: str) -> RunRecord:
    """After a decision: the run's status from those of its targets, unless it is at work."""
    rows = Materializations(tx).of_run(run)
    status = run_status({finish.result_of(row).status for row in rows})
    if Runs(tx).settle(run, status):
        Audit(tx).add(f"run.{status.value}", actor, str(run), run=run)
    return Runs(tx).by_id(run)


def result_of(database: Database, run: RunRecord) -> RunResult:
    """A run as it ended, from the registry."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
    results = finish.results_in(rows)
    return RunResult(
        run_id=run.name, status=run.status, folder=run.folder, assets=results, commit=commit
    )


def rewrite_report(database: Database, project: Path, run: RunRecord) -> None:
    """Not while a process is at work on it: that one writes the report when it is done."""
    if run.status is Status.RUNNING or not (project / run.folder).is_dir():
        return
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    folder = RunFolder.open(project / run.folder)
    identity = RunIdentity(run.name, str(run.id), run.started_at)
    commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
    result = finish.conclude(identity, rows, run.folder).with_commit(commit)
    finish.write(folder, identity, result, rows)
    sealed = seal.seal_of(project, run, result, rows)
    database.durably(lambda tx: Seals(tx).add(sealed, run.id))
    seal.place(database, project, run.project)
