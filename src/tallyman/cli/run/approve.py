"""`tallyman approve`, `reject`, `approvals`: decide on results that wait for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, Partition, ProjectFolder, RunName, opened, pairs
from tallyman.cli.terminal.output import answer, listed
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.registry.run.approvals import Approvals

AssetName = Annotated[str, typer.Argument(help="The asset whose result waits for approval.")]
Reason = Annotated[str | None, typer.Option(help="Why; recorded with the decision.")]


def approve(
    run: RunName,
    asset: AssetName,
    reason: Reason = None,
    modifications: Annotated[
        list[str] | None,
        typer.Option("--set", help="A condition of the approval, name=value; repeatable."),
    ] = None,
    partition: Partition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Accept a result that waits for approval.

    Then run `tallyman resume` to make the assets that read it; workers go on by themselves.
    """
    conditions = pairs(modifications or [], "--set")
    record = opened(project).decide(
        run, asset, approved=True, partition=partition, reason=reason, modifications=conditions
    )
    after = {
        Status.RUNNING: f"it goes on by itself:  tallyman watch {record.name}",
        Status.INTERRUPTED: f"next:  tallyman resume {record.name}",
    }
    _show(record, asset, "approved", json_output, after.get(record.status))


def reject(
    run: RunName,
    asset: AssetName,
    reason: Reason = None,
    partition: Partition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Refuse a result that waits for approval. Its target then fails."""
    record = opened(project).decide(run, asset, approved=False, partition=partition, reason=reason)
    _show(record, asset, "rejected", json_output)


def _show(
    record: RunRecord, asset: str, word: str, json_output: bool, after: str | None = None
) -> None:
    lines = [f"{asset}: {word}   run {record.name} is now {record.status.value}"]
    facts = {"run_id": record.name, "asset": asset, "decision": word, "run": record.status}
    answer(facts, [*lines, after] if after else lines, json_output)


def approvals(
    status: Annotated[
        str | None, typer.Option(help="Only pending, approved, rejected or expired. Default: all.")
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List results that wait for approval, and past decisions."""
    found = opened(project)
    found.runs(limit=1)  # marks overdue approvals as expired
    rows = found.database.durably(
        lambda tx: Approvals(tx).list(found.settings.owner, status=status)
    )
    names = ("run", "asset", "partition", "status", "message", "timeout_at", "decision_by")
    listed(rows, (*names, "reason"), "no approvals", json_output)
