"""`tallyman lineage`: list what a result was made from, and what was made from it; deliver the
events that report it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC
from typing import TYPE_CHECKING, Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import answer, as_json, err, interactive, listed, out, table
from tallyman.domain.codec import to_plain
from tallyman.domain.history.lineage import Granularity, Reached

if TYPE_CHECKING:
    from tallyman.control.delivery.outbox import LineageState

CONFIGURE = """
Events are kept until a destination is configured. For example:
  export OPENLINEAGE_URL=http://collector:5000    (and OPENLINEAGE_API_KEY, if required)
or create openlineage.yml in the project folder:
  transport: {type: http, url: "http://collector:5000"}
"""
REFUSALS = ("run", "event_type", "job", "reason")

lineage = typer.Typer(
    help="List what results were made from, and what depends on them.",
    no_args_is_help=True,
)
COLUMNS = ("depth", "asset", "partition", "kind", "status")

AssetName = Annotated[str, typer.Argument(help="An asset. `down` and `impact` also take a source.")]
OnePartition = Annotated[
    str | None,
    typer.Option("--partition", help="Only this partition, for example d:2025-01-01."),
]


@lineage.command(epilog="Example:  tallyman lineage up daily_revenue --partition d:2025-01-01")
def up(
    asset: AssetName,
    partition: OnePartition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List what the newest result was made from, back to the sources.

    Depth 1 lists the inputs that the result read directly, in the versions that it read. Without
    --partition, start at the newest result of any partition.
    """
    found = opened(project).lineage("up", asset, partition=partition)
    _show(found, f"{asset} has no inputs", json_output)


@lineage.command(epilog="Example:  tallyman lineage down bookings --json")
def down(
    asset: AssetName,
    partition: OnePartition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List everything that was made from an asset or a source.

    Only successful results count. Without --partition, start from all partitions.
    """
    found = opened(project).lineage("down", asset, partition=partition)
    _show(found, f"nothing has been made from {asset} yet", json_output)


@lineage.command(
    epilog="Example:  tallyman lineage impact bookings --partition d:2025-01-01 --granularity asset"
)
def impact(
    asset: AssetName,
    partition: OnePartition = None,
    granularity: Annotated[
        Granularity,
        typer.Option(
            help="partition: list what read exactly this partition. asset: list every partition "
            "of every asset that has read any part of it."
        ),
    ] = "partition",
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List what to make again when an asset or a source changes.

    The status is that of the latest attempt, successful or not.
    """
    found = opened(project).lineage("impact", asset, partition=partition, granularity=granularity)
    _show(found, f"a change of {asset} affects no result", json_output)


def _show(found: list[Reached], nothing: str, json_output: bool) -> None:
    rows = to_plain(found)
    elsewhere = any(reached.pipeline for reached in found)
    listed(rows, (*COLUMNS, "pipeline") if elsewhere else COLUMNS, nothing, json_output)


@lineage.command(epilog="Example:  tallyman lineage status --json")
def status(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Show where OpenLineage events go, how many are waiting, and errors.

    A run stores its events in the spool, in the same transaction as the change they describe.
    Events are sent in order while the run is running. If the receiver does not accept them, they
    stay in the spool.
    """
    found = opened(project).lineage.state()
    if json_output:
        as_json(found.to_json())
        return
    for name, value in _lines(found):
        out.print(f"{name:<14}{value}")
    if found.refusals:
        out.print()
        table(found.refusals, REFUSALS)
        out.print("to retry them:  tallyman lineage flush --refused")
    if found.disabled:
        return
    if found.destination is None and found.problem is None:
        out.print(CONFIGURE.rstrip())
    elif found.spool.waiting:
        out.print("to send them now:  tallyman lineage flush")


def _lines(found: LineageState) -> list[tuple[str, str]]:
    spool = found.spool
    nowhere = "disabled: OPENLINEAGE_DISABLED is true" if found.disabled else "not configured"
    lines = [("destination", found.destination or nowhere)]
    if found.problem:
        lines = [("destination", "cannot be used"), ("problem", found.problem)]
    lines.append(("waiting", f"{spool.waiting:,}"))
    if spool.oldest_at is not None:
        lines.append(("oldest", f"{spool.oldest_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"))
    lines += [("sent", f"{spool.sent:,}"), ("refused", f"{spool.refused:,}")]
    if spool.last_error:
        times = "once" if spool.attempts == 1 else f"{spool.attempts:,} times"
        lines.append(("last error", f"{spool.last_error} (tried {times})"))
    return lines


@lineage.command(epilog="Example:  OPENLINEAGE_URL=http://collector:5000 tallyman lineage flush")
def flush(
    refused: Annotated[
        bool, typer.Option("--refused", help="Also retry events that were refused before.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Send all waiting OpenLineage events, in order.

    The destination comes from OPENLINEAGE_URL (with OPENLINEAGE_API_KEY), from OPENLINEAGE__…
    variables, or from openlineage.yml: the file that OPENLINEAGE_CONFIG names, or one in the
    working directory, the project folder or ~/.openlineage.

    Sending stops at the first event that cannot be delivered. No event is lost; the next flush or
    run continues there. An event that the receiver refuses (422, for example) is skipped and kept.
    Exit code 1 if not everything was sent.
    """
    with err.status("sending lineage events") as spinner:
        if not interactive():
            spinner.stop()
        done = opened(project).lineage.flush(
            refused=refused, listen=lambda sent: spinner.update(f"{sent:,} lineage events sent")
        )
    text = "no events are waiting"
    if done.sent or done.refused:
        refused_ = f", {done.refused:,} refused (tallyman lineage status)" if done.refused else ""
        text = f"{done.sent:,} sent to {done.destination}{refused_}"
    answer(asdict(done), text, json_output)
    raise typer.Exit(1 if done.refused or done.waiting else 0)
