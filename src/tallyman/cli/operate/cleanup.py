"""`tallyman cleanup`: find and remove files that nothing points to."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, table
from tallyman.control.publish.cleanup import Cleaned
from tallyman.errors import UsageError

LONGEST = 1e9
"""Seconds; the most that --older-than can mean."""


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def cleanup(
    older_than: Annotated[
        str, typer.Option(help="Keep files younger than this: 30s, 10m, 12h, 7d, 2w.")
    ] = "1d",
    keep_versions: Annotated[
        int | None,
        typer.Option(help="Also remove unreachable versions older than the newest N."),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove them; without this, only list them.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List files that nothing points to; remove them with --confirm.

    Runs and mutations that failed or lost a race leave such files. A version that is current, named
    by a snapshot, read by a run, or the next target of a rollback is never removed. Lineage events
    that were sent are also removed; waiting and refused events stay.
    """
    if keep_versions is not None and keep_versions < 1:
        raise UsageError("--keep-versions must be at least 1")
    found = opened(project)
    done = found.cleanup(
        older_than_s=seconds(older_than), keep_versions=keep_versions, confirm=confirm
    )
    events = found.cleanup_events(older_than_s=seconds(older_than), confirm=confirm)
    root = found.settings.home
    if json_output:
        listed = [one.to_json(root) for one in done]
        as_json({"confirmed": confirm, "datasets": listed, "sent_events_removed": events})
        return
    show_cleaned(done, events, confirm=confirm)


def show_cleaned(done: list[Cleaned], events: int, *, confirm: bool) -> None:
    rows = [
        {
            "dataset": one.dataset,
            "leftovers": len(one.places),
            "versions": ", ".join(f"v{n}" for n in one.versions),
            "bytes": one.bytes,
            "error": one.error,
        }
        for one in done
    ]
    if not rows and not events:
        out.print("nothing to remove", markup=False)
        return
    if rows:
        table(rows, ("dataset", "leftovers", "versions", "bytes", "error"))
    if events:
        out.print(f"sent lineage events: {events}", markup=False)
    if not confirm:
        out.print("nothing was removed; add --confirm to remove them", markup=False)


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if not found:
        raise UsageError(f"--older-than: expected a number and s, m, h, d or w, not {text!r}")
    return min(float(found[1]) * UNITS[found[2]], LONGEST)


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(cleanup)
