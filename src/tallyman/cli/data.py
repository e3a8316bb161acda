"""Datasets: read them, list their versions and commits, compare two versions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tallyman.cli.options import AsJson, ProjectFolder, opened
from tallyman.cli.output import as_json, out, short, table
from tallyman.domain.version.commit import Commit
from tallyman.query.diff.diff import DiffRow

DatasetName = Annotated[str, typer.Argument(help="A dataset, or the asset that produces it.")]
AtVersion = Annotated[
    int | None, typer.Option("--version", "-v", help="A version's number. Default: the current.")
]
Limit = Annotated[int, typer.Option(min=0, help="At most this many.")]


def read(
    dataset: DatasetName,
    version: AtVersion = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Show rows of a dataset, or of a snapshot, without Spark.

    Example:  tallyman read daily_revenue --version 6 --limit 5
    """
    found = opened(project)
    resolved, rows = found.rows(dataset, version, limit=limit)
    if json_output:
        as_json(rows)
        return
    if rows:
        table(rows, list(rows[0]))
    shown, total = len(rows), resolved.version.rows
    at = f"{resolved.dataset.name} v{resolved.version.ordinal}"
    out.print(f"{at}   {shown:,} of {total:,} rows", markup=False)


def versions(
    dataset: DatasetName,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List the versions of a dataset, newest first."""
    found = opened(project)
    listed = found.versions(dataset, limit=limit)
    commits = {commit.id: commit for commit in found.commits(dataset, limit=limit)}
    pins: dict[int, list[str]] = {}
    for snapshot in found.snapshots(dataset):
        pins.setdefault(snapshot["ordinal"], []).append(snapshot["alias"])
    rows: list[dict[str, Any]] = []
    for place, version in enumerate(listed):
        commit = commits.get(version.commit_id)
        again = f" of v{version.restores}" if version.restores else ""
        state = "current" if place == 0 else ""
        if version.metadata_location is None:
            state = "nothing to read" if place == 0 else ""
        if version.purged_at:
            state = "purged"
        rows.append(
            {
                "version": version.ordinal,
                "state": state,
                "operation": f"{version.operation}{again}",
                "rows": version.rows,
                "bytes": version.bytes,
                "files": version.files,
                "at": f"{version.created_at:%Y-%m-%dT%H:%M:%SZ}",
                "actor": commit.actor if commit else None,
                "commit": short(str(version.commit_id)),
                "pinned_by": ", ".join(pins.get(version.ordinal, ())),
                "id": str(version.id),
                "metadata_location": version.metadata_location,
            }
        )
    if json_output:
        as_json(rows)
        return
    names = ("version", "state", "operation", "rows", "bytes", "at", "actor", "commit", "pinned_by")
    table(rows, names)


def commits(
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="Only of this one.")
    ] = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List commits, newest first: who moved what to which version, and why."""
    rows = [_commit(commit) for commit in opened(project).commits(dataset, limit=limit)]
    if json_output:
        as_json(rows)
        return
    for row in rows:
        row["commit"], row["moved"] = short(row["id"]), ", ".join(row["moved"])
    table(rows, ("commit", "at", "kind", "actor", "moved", "message"))


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "id": str(commit.id),
        "at": f"{commit.created_at:%Y-%m-%dT%H:%M:%SZ}",
        "kind": commit.kind,
        "actor": commit.actor,
        "parent": str(commit.parent) if commit.parent else None,
        "run": commit.details.get("run"),
        "message": commit.message,
        "pipeline_version": commit.pipeline_version,
        "moved": [str(move) for move in commit.moves],
        "versions": {move.dataset: move.ordinal for move in commit.moves},
    }


def diff(
    dataset: DatasetName,
    before: Annotated[int, typer.Argument(help="The earlier version's number.")],
    after: Annotated[int, typer.Argument(help="The later version's number.")],
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Compare two versions row by row, by the dataset's key.

    Exits 0 also when they differ. Example:  tallyman diff daily_revenue 6 7
    """
    found = opened(project).diff(dataset, before, after, limit=limit)
    if json_output:
        as_json(found.to_json())
        return
    how = "" if found.by_key else "   (no unique key: whole rows compared)"
    out.print(
        f"{dataset} v{before} → v{after}   {found.added:,} added   {found.removed:,} removed   "
        f"{found.changed:,} changed{how}",
        markup=False,
    )
    for word, columns in (
        ("new columns", found.columns_added),
        ("columns gone", found.columns_removed),
        ("columns of another type", found.columns_retyped),
    ):
        if columns:
            out.print(f"{word}: {', '.join(columns)}", markup=False)
    for row in found.rows:
        out.print(f"{_SIGNS[row.kind]} {_line(row)}", markup=False)
    left = found.added + found.removed + found.changed - len(found.rows)
    if left > 0:
        out.print(f"… and {left:,} more; --limit shows more of them", markup=False)


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def _line(row: DiffRow) -> str:
    named = ", ".join(f"{name}={value}" for name, value in row.key.items())
    if row.before and row.after:
        before, after = row.before, row.after
        moved = (f"{name}: {before.get(name)} → {after.get(name)}" for name in row.columns)
        return f"{named}   {', '.join(moved)}"
    rest = {k: v for k, v in (row.after or row.before or {}).items() if k not in row.key}
    shown = ", ".join(f"{name}={value}" for name, value in rest.items())
    return f"{named}   {shown}" if named else shown


def register(app: typer.Typer) -> None:
    for command in (read, versions, commits, diff):
        app.command()(command)
