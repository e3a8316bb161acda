"""`tallyman approve`, `reject`, `approvals`: decide on results that wait for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import typer

from tallyman.cli.terminal.options import AsJson, Partition, ProjectFolder, RunName, opened, pairs
from tallyman.cli.terminal.output import as_json, listed, out
from tallyman.domain.history.run import Status
from tallyman.registry.run.approvals import Approvals

AssetName = Annotated[str, typer.Argument(help="The asset whose result waits for approval.")]
Reason = Annotated[str | None, typer.Option(help="Why; recorded with the decision.")]


class Decided(NamedTuple):
    approved: bool
    reason: str | None
    modifications: Mapping[str, str] = {}


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
    given = Decided(True, reason, pairs(modifications or [], "--set"))
    _decide(run, asset, partition, given, project, json_output)


def reject(
    run: RunName,
    asset: AssetName,
    reason: Reason = None,
    partition: Partition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Refuse a result that waits for approval. Its target then fails."""
    _decide(run, asset, partition, Decided(False, reason), project, json_output)


def _decide(
    run: str,
    asset: str,
    partition: str | None,
    given: Decided,
    project: str | None,
    json_output: bool,
) -> None:
    found = opened(project)
    approved, reason, modifications = given
    record = found.decide(
        run,
        asset,
        approved=approved,
        partition=partition,
        reason=reason,
        modifications=modifications,
    )
    word = "approved" if approved else "rejected"
    if json_output:
        as_json({"run_id": record.name, "asset": asset, "decision": word, "run": record.status})
        return
    out.print(f"{asset}: {word}   run {record.name} is now {record.status.value}")
    if approved and record.status is Status.RUNNING:
        out.print(f"it goes on by itself:  tallyman watch {record.name}")
    if approved and record.status is Status.INTERRUPTED:
        out.print(f"next:  tallyman resume {record.name}")


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
