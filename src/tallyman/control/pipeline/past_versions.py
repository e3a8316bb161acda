"""Stored versions of a project's pipeline: find one, open the project on it, and compare the active
one with the project's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.version.owner import Owner
from tallyman.domain.version.table import Table
from tallyman.errors import DefinitionError, NotFound, VersionAmbiguous
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines

ACTIVE = "active"
"""The name of the active version, in place of its hash."""


def get_version(tx: Transaction, owner: Owner, wanted: str) -> PipelineVersion:
    """Find a version by its hash, a prefix of it, or `active`."""
    pipelines, prefix = Pipelines(tx), wanted.strip().lower()
    if prefix == ACTIVE:
        active = pipelines.active(owner)
        found = [active[0]] if active else []
    else:
        found = pipelines.matching(owner, prefix) if prefix else []
    if not found:
        every = [one[: max(len(prefix), 8)] for one in pipelines.matching(owner)]
        raise NotFound("pipeline version", wanted, nearest(prefix, [ACTIVE, *every], 0.5))
    if len(found) > 1:
        raise VersionAmbiguous(wanted, found)
    version = pipelines.find(owner, found[0])
    assert version is not None
    return version


def at_version(workspace: Workspace, wanted: str) -> Workspace:
    """Open the project on a stored version, whatever its files declare."""
    owner = workspace.owner
    return workspace.at(workspace.database.durably(lambda tx: get_version(tx, owner, wanted)))


def asked_for(workspace: Workspace, run: RunRecord) -> Workspace:
    """Open the project as the run was asked for: on a stored version, or on the files."""
    wanted = run.params.options.stored_version
    return at_version(workspace, wanted) if wanted else workspace


def as_of(workspace: Workspace, run: RunRecord) -> Workspace:
    """Open the project on the pipeline version of a run: on its stored plan, if the files declare
    something else now."""
    version = version_of(workspace, run)
    if version is None or _in_files(workspace) == version.hash:
        return workspace
    return workspace.at(version)


def version_of(workspace: Workspace, run: RunRecord) -> PipelineVersion | None:
    """Return the pipeline version of a run; None if it is not known."""
    known, owner = run.params.pipeline_version, workspace.owner
    if known is None:
        return None
    return workspace.database.durably(lambda tx: Pipelines(tx).find(owner, known))


def declared_tables(workspace: Workspace) -> Mapping[str, Table]:
    """Return the tables that the files declare, or the active version if there are no files."""
    try:
        return workspace.pipeline.tables
    except DefinitionError:
        owner = workspace.owner
        active = workspace.database.durably(lambda tx: Pipelines(tx).active(owner))
        if active is None:
            raise
        return at_version(workspace, active[0]).pipeline.tables


def _in_files(workspace: Workspace) -> str | None:
    """Return the version that the files declare; None if they cannot be compiled."""
    try:
        return workspace.version()
    except DefinitionError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStanding:
    """The active pipeline version, next to the one that the project's files declare."""

    active: str | None
    files: str | None
    """None if the files declare no pipeline, or one with mistakes."""
    runs_from: str
    """The version that `tallyman run` takes now, in words."""

    def to_json(self) -> dict[str, Any]:
        return {"active": self.active, "files": self.files, "run": self.runs_from}


def standing(workspace: Workspace) -> PipelineStanding:
    """Compare the active version with the files, and say what a run would do."""
    owner, files = workspace.owner, _in_files(workspace)

    def work(tx: Transaction) -> tuple[PipelineVersion | None, bool]:
        pipelines = Pipelines(tx)
        active = pipelines.active(owner)
        gone = files is not None and pipelines.rolled_back(owner, files) is not None
        return pipelines.find(owner, active[0]) if active else None, gone

    active, rolled_back = workspace.database.durably(work)
    return PipelineStanding(
        active=active.hash if active else None,
        files=files,
        runs_from=_words(active, files, rolled_back=rolled_back),
    )


def _words(active: PipelineVersion | None, files: str | None, *, rolled_back: bool) -> str:
    if active is not None and files == active.hash:
        return "the files declare the active version: `tallyman run` runs it"
    if files is None:
        now = "the files declare no pipeline, or one with mistakes: `tallyman run` fails"
    elif rolled_back:
        now = (
            f"the files declare {files[:8]}, which was rolled back: `tallyman run` refuses it "
            "until the files change or `tallyman apply` publishes it again"
        )
    else:
        now = f"the files declare {files[:8]}: `tallyman run` runs it and makes it active"
    if active is None:
        return now
    asked = f"tallyman run --pipeline-version {active.hash[:8]}"
    return f"{now}; `{asked}` runs the active version from its stored plan"
