"""`tallyman purge`: remove one version permanently."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, DatasetName, ProjectFolder, opened
from tallyman.cli.terminal.output import answer
from tallyman.errors import UsageError


def purge(
    dataset: DatasetName,
    version: Annotated[int, typer.Argument(help="The version's number.")],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove it; this cannot be undone.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Remove one version permanently, also from its run folder.

    Refused if the version is current, named by a snapshot, read by a run, or the next target of a
    rollback.
    """
    if not confirm:
        raise UsageError(f"purging {dataset} v{version} cannot be undone; add --confirm")
    found = opened(project)
    done = found.purge(dataset, version)
    text = f"removed {dataset} v{version}: {done.bytes:,} bytes"
    answer(done.to_json(found.settings.home), text, json_output)
