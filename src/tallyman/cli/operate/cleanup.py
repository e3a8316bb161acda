"""`tallyman cleanup`: find and remove files that nothing points to."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, short, table
from tallyman.control.publish.cleanup import Cleaned
from tallyman.control.publish.old_runs import OldRun
from tallyman.errors import UsageError
from tallyman.settings import age_s


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
    that were sent are also removed; waiting and refused events stay. So is what failed attempts
    left in the folders of runs; a later resume makes all of it again. With `keep_runs: 90d` in
    tallyman.yaml, runs of that age that nothing needs are removed too, as by `tallyman runs rm`.
    """
    if keep_versions is not None and keep_versions < 1:
        raise UsageError("--keep-versions must be at least 1")
    found, age = opened(project), age_s(older_than, "--older-than")
    done = found.cleanup(older_than_s=age, keep_versions=keep_versions, confirm=confirm)
    events = found.versions.cleanup_events(older_than_s=age, confirm=confirm)
    left = found.versions.cleanup_attempts(older_than_s=age, confirm=confirm)
    kept_s = found.settings.keep_runs_s
    runs: list[OldRun] = []
    if kept_s is not None:
        old = found.runs.remove_old(older_than_s=kept_s, confirm=confirm)
        runs = [one for one in old if one.kept is None]
    root = found.settings.home
    if json_output:
        as_json(
            {
                "confirmed": confirm,
                "datasets": [one.to_json(root) for one in done],
                "sent_events_removed": events,
                "attempts": [os.path.relpath(place, root) for place in left],
                "runs": [one.to_json() for one in runs],
            }
        )
        return
    show_cleaned(done, events, runs, len(left), confirm=confirm)


def show_cleaned(
    done: list[Cleaned], events: int, runs: list[OldRun], left: int, *, confirm: bool
) -> None:
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
    if not rows and not events and not runs and not left:
        out.print("nothing to remove")
        return
    if rows:
        table(rows, ("dataset", "leftovers", "versions", "bytes", "error"))
    if events:
        out.print(f"sent lineage events: {events}")
    if left:
        out.print(f"folders of attempts that ended without a result: {left}")
    if runs:
        size = sum(one.bytes for one in runs)
        names = ", ".join(short(one.run.name) for one in runs)
        out.print(f"runs: {names}   {size:,} bytes")
    if not confirm:
        out.print("nothing was removed; add --confirm to remove them")
