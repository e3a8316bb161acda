"""`tallyman versions`: list the versions of a dataset."""

from __future__ import annotations

from typing import Any

from tallyman.cli.terminal.options import AsJson, DatasetName, Limit, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, short, table


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
    for snapshot in found.datasets.snapshots(dataset):
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
