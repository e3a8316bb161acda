"""`tallyman lineage status` and `flush`: OpenLineage events on their way to a receiver."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC
from typing import TYPE_CHECKING, Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, err, interactive, out, table

if TYPE_CHECKING:
    from tallyman.control.delivery.outbox import LineageState

CONFIGURE = """
Events are kept until there is a destination. Say which, for example:
  export OPENLINEAGE_URL=http://collector:5000    (and OPENLINEAGE_API_KEY, if it wants one)
or put an openlineage.yml into the project's folder:
  transport: {type: http, url: "http://collector:5000"}
"""
REFUSALS = ("run", "event_type", "job", "reason")


def status(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Show where OpenLineage events go, how many wait, and errors.

    A run writes its events to the spool, in the transaction of what they describe. They are sent
    while the run is at work, and kept in order if the receiver does not take them.
    """
    found = opened(project).lineage_state()
    if json_output:
        as_json(found.to_json())
        return
    for name, value in _lines(found):
        out.print(f"{name:<14}{value}", markup=False)
    if found.refusals:
        out.print()
        table(found.refusals, REFUSALS)
        out.print("try them again:  tallyman lineage flush --refused", markup=False)
    if found.disabled:
        return
    if found.destination is None and found.problem is None:
        out.print(CONFIGURE.rstrip(), markup=False)
    elif found.spool.waiting:
        out.print("send them now:  tallyman lineage flush", markup=False)


def _lines(found: LineageState) -> list[tuple[str, str]]:
    spool = found.spool
    nowhere = "disabled: OPENLINEAGE_DISABLED is true" if found.disabled else "none is configured"
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


def flush(
    refused: Annotated[
        bool, typer.Option("--refused", help="Try those again that were refused before.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Send the OpenLineage events that wait, in order.

    The destination is the one of OPENLINEAGE_URL (with OPENLINEAGE_API_KEY), of OPENLINEAGE__… or
    of an openlineage.yml: the one that OPENLINEAGE_CONFIG names, in the working directory, in the
    project's folder or in ~/.openlineage. It stops at the first event that the receiver does not
    take; nothing is lost, and the next flush or run continues there. An event that the receiver
    refuses (422, for example) is skipped and kept. Exit code 1 if not everything was sent.
    """
    with err.status("sending lineage events") as spinner:
        if not interactive():
            spinner.stop()
        done = opened(project).flush_lineage(
            refused=refused, listen=lambda sent: spinner.update(f"{sent:,} lineage events sent")
        )
    if json_output:
        as_json(asdict(done))
    elif done.sent or done.refused:
        refused_ = f", {done.refused:,} refused (tallyman lineage status)" if done.refused else ""
        out.print(f"{done.sent:,} sent to {done.destination}{refused_}", markup=False)
    else:
        out.print("nothing waits to be sent", markup=False)
    raise typer.Exit(1 if done.refused or done.waiting else 0)


def register(lineage: typer.Typer) -> None:
    lineage.command(epilog="Example:  tallyman lineage status --json")(status)
    lineage.command(
        epilog="Example:  OPENLINEAGE_URL=http://collector:5000 tallyman lineage flush"
    )(flush)
