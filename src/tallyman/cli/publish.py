"""`plan`, `apply`, `rollback`, `snapshot`, `publish`, `cleanup`, `purge`: what readers see."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from tallyman.cli.data import AtVersion, DatasetName
from tallyman.cli.options import AsJson, Jobs, Master, ProjectFolder, SparkConf, opened
from tallyman.cli.output import as_json, out, published, table
from tallyman.cli.run import show_result, supervised
from tallyman.control.publish.cleanup import Cleaned
from tallyman.domain.version.change_plan import ChangePlan, Planned
from tallyman.domain.version.commit import Commit
from tallyman.errors import UsageError

LONGEST = 1e9
"""Seconds; more than anything is old."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
Message = Annotated[str | None, typer.Option("--message", "-m", help="Why, for the history.")]


def plan(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Show what applying the pipeline as it is now would do, and change nothing.

    The plan is kept: `tallyman apply` carries it out, if the world has not moved since.
    """
    found = opened(project).plan()
    if json_output:
        as_json(found.to_json())
        return
    _show_plan(found)
    if found.empty and found.pipeline_from == found.pipeline_to:
        out.print("nothing to apply", markup=False)
    else:
        out.print(f"carry it out:  tallyman apply {found.id[:8]}", markup=False)


def _show_plan(plan: ChangePlan) -> None:
    for one in plan.planned:
        out.print(str(one), markup=False)


def apply(
    plan: Annotated[str, typer.Argument(help="A plan's id, a beginning of it, or 'latest'.")] = (
        "latest"
    ),
    jobs: Jobs = 1,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Carry out a plan: build aside, then cut over to all of it in one commit.

    Readers keep the old versions until the commit, and see all new ones after it. Refused (exit
    4) if the pipeline or a dataset has changed since the plan was made.
    """
    found = opened(project, master, spark_conf)
    made, result, commit = supervised(
        found, json_output, lambda progress: found.apply(plan, jobs=jobs, listen=progress)
    )
    if result is not None:
        show_result(result, json_output)
    elif json_output:
        as_json({"plan": made.id, **_committed(commit)})
    elif commit is None and made.empty:
        out.print("nothing had to change", markup=False)
    else:
        named = [one for one in made.planned if one.rename_to or one.publish is not None]
        for one in named:
            out.print(f"{one.dataset}: {_naming(one)}", markup=False)
        if commit:
            out.print(published(commit), markup=False)


def _naming(one: Planned) -> str:
    said = [f"is called {one.rename_to} now"] if one.rename_to else []
    if one.publish is not None:
        said.append("is shown to readers outside" if one.publish else "is hidden from outside")
    return ", ".join(said)


def _committed(commit: Commit | None) -> dict[str, Any]:
    moves = commit.moves if commit else ()
    return {
        "commit": str(commit.id) if commit else None,
        "versions": {move.dataset: move.ordinal for move in moves},
    }


def rollback(
    dataset: Annotated[
        str | None, typer.Argument(help="One dataset; with --to.", show_default=False)
    ] = None,
    to: Annotated[int | None, typer.Option("--to", help="The version to go back to.")] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", "-c", help="Everything as it was after this commit."),
    ] = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Go back, in one commit: all datasets and the pipeline to a commit, or one to a version.

    History only grows: the versions in between stay, and going back can itself be undone. Example:
    tallyman rollback --commit 1f0c22a1   or   tallyman rollback daily_revenue --to 6
    """
    made = opened(project).rollback(dataset, to=to, commit=commit, message=message)
    if json_output:
        as_json(_committed(made))
    else:
        out.print(published(made) if made else "everything is like that already", markup=False)


def snapshot(
    dataset: DatasetName,
    alias: Annotated[str, typer.Argument(help="A name of its own, read like a dataset's.")],
    version: AtVersion = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Give a version a name that never moves; it is kept for ever.

    Example:  tallyman snapshot daily_revenue revenue_2026_q1
    """
    found = opened(project).snapshot(dataset, alias, version=version)
    if json_output:
        as_json({"alias": alias, "dataset": dataset, "version": found.ordinal})
    else:
        out.print(f"{alias} is {dataset} v{found.ordinal}, for ever", markup=False)


def publish(
    dataset: DatasetName,
    name: Annotated[str | None, typer.Option("--as", help="A new name for people.")] = None,
    hide: Annotated[bool, typer.Option("--hide", help="Not for readers outside.")] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Rename a dataset, show it to readers outside, or hide it: metadata only.

    Its versions, files and lineage stay as they are.
    """
    found = opened(project)
    made = found.publish(dataset, name=name, hidden=hide)
    row = {"dataset": made.name, "id": str(made.id), "published": made.published}
    if json_output:
        as_json(row)
    else:
        seen = f"as published.{made.name}" if made.published else "not at all"
        out.print(f"{made.name}: readers outside see it {seen}", markup=False)


def cleanup(
    older_than: Annotated[
        str, typer.Option(help="Spare what is younger: 30s, 10m, 12h, 7d, 2w.")
    ] = "1d",
    keep_versions: Annotated[
        int | None,
        typer.Option(help="Also remove versions beyond the newest N that nothing can reach."),
    ] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Really remove them.")] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Show what nothing points to any more; with --confirm, remove it.

    Left over by runs and mutations that failed or lost a race. What is current, pinned by a
    snapshot, read by a run, or next in line for a rollback is never removed. Lineage events go
    that were sent; those that wait or were refused stay.
    """
    if keep_versions is not None and keep_versions < 1:
        raise UsageError("--keep-versions is at least 1")
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
        out.print(f"lineage events that were sent: {events}", markup=False)
    if not confirm:
        out.print("nothing was removed; to remove it:  --confirm", markup=False)


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if not found:
        raise UsageError(f"--older-than: a number and s, m, h, d or w, not {text!r}")
    return min(float(found[1]) * UNITS[found[2]], LONGEST)


def purge(
    dataset: DatasetName,
    version: Annotated[int, typer.Argument(help="The version's number.")],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Really: it cannot be undone.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Remove one version for good, also from the run that made it. For administrators.

    Refused for what is current, pinned, read by a run, or next in line for a rollback.
    """
    if not confirm:
        raise UsageError(f"purging {dataset} v{version} cannot be undone; say --confirm")
    found = opened(project)
    done = found.purge(dataset, version)
    if json_output:
        as_json(done.to_json(found.settings.home))
    else:
        out.print(f"{dataset} v{version} is gone: {done.bytes:,} bytes", markup=False)


def register(app: typer.Typer) -> None:
    for command in (plan, apply, rollback, snapshot, publish, cleanup, purge):
        app.command()(command)
