"""Make a packaged target in a process that has no database. Its files stay where no reader looks;
whoever records the outcome puts them in their place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

from tallyman.control.bind.describe import RunDescription, description
from tallyman.control.bind.pinned_files import Pin, PinnedFiles
from tallyman.control.openlineage.run import RunEvents
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.assignment import Assignment, TargetOutcome
from tallyman.control.target.make_target import (
    MAKING_TARGETS,
    SPARK,
    MakingHooks,
    TargetWork,
    failed,
)
from tallyman.control.target.package import MadeTarget, TargetPackage
from tallyman.control.target.target_inputs import TargetInputs
from tallyman.domain.codec import to_plain
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.pipeline.target import Reading, Target
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.files.hashing import hasher_for
from tallyman.engine.files.run_folder import RunFolder
from tallyman.engine.spark.project_session import ProjectSession
from tallyman.errors import StorageFailed, TallymanError
from tallyman.on_demand import imported_meanwhile
from tallyman.registry.database import Database
from tallyman.settings import STATE


class NoDatabase(Database):
    """In place of the database, in a process that has none."""

    def url(self) -> NoReturn:
        raise AssertionError("a target is made without the database")

    @property
    def owner_url(self) -> NoReturn:
        self.url()


@dataclass(frozen=True, slots=True)
class AssignedPins:
    """The inputs of an assigned target, for the manifest of its run."""

    files: PinnedFiles
    assignment: Assignment

    @property
    def ordinals(self) -> Mapping[UUID, int]:
        return self.assignment.run.pins

    def source(self, target: Target, reading: Reading) -> Pin:
        return self.files.source(target, reading)

    def fragments(self, reading: Reading) -> Sequence[Fragment]:
        return self.assignment.inputs[reading.name].fragments


@dataclass(frozen=True, slots=True)
class ChildHooks(MakingHooks):
    """Keeps the first events of a target: they are recorded with its outcome. Its fragments were
    opened with the assignment."""

    begun: list[LineageEvent]

    def started(self, definition: str, events: list[LineageEvent]) -> None:
        self.begun.extend(events)


class ProjectsOfChild:
    """The project that this process has opened. It stays open for the next target of the same
    version: its pipeline is checked already, and Spark runs."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._opened: Workspace | None = None
        self._session: tuple[str, ProjectSession] | None = None

    def open(self, package: TargetPackage) -> Workspace:
        facts = [package.version, to_plain(package.settings), to_plain(package.shared)]
        key = json.dumps(facts, sort_keys=True)
        if self._opened is None or self._key != key:
            settings = package.settings
            none = NoDatabase("", settings.state_folder)
            session = self._session_for(package.process)
            version = PipelineVersion(hash=package.version, definition={}, plan=package.plan)
            self._opened = Workspace(settings, none, session).at(version)
            self._key = key
        return self._opened

    def prepare(self, process: Mapping[str, Any]) -> None:
        """Start Spark for targets whose packages have these settings of a process."""
        with imported_meanwhile(*MAKING_TARGETS, after=SPARK):
            self._session_for(process).get(process["spark"], process["quiet"])

    def _session_for(self, process: Mapping[str, Any]) -> ProjectSession:
        key = json.dumps(process, sort_keys=True)
        if self._session is None or self._session[0] != key:
            self._session = key, ProjectSession(process["master"], Path(process["home"]) / STATE)
        return self._session[1]


def make(package: TargetPackage, projects: ProjectsOfChild) -> MadeTarget:
    """Make the target, or find that its earlier result stands. A failure is an outcome too."""
    assignment, options = package.assignment, package.assignment.options
    workspace, target, run = projects.open(package), assignment.target, assignment.run
    definitions = Definitions.of(workspace, [target.asset], options.evidence, options.thresholds)
    definitions.known_shared = package.shared
    hasher = hasher_for(workspace.settings.master, definitions.spark)
    files = PinnedFiles(workspace.pipeline, workspace.home, workspace.warehouse, hasher)
    folder, first = RunFolder(workspace.home / run.folder), list[LineageEvent]()
    described: RunDescription | None = None
    if package.describes:
        described = description(definitions, run, [target], AssignedPins(files, assignment))
    lineage = RunEvents(definitions, run, folder, described.manifest if described else None)
    if described is not None:
        first += lineage.first([target])
    work = TargetWork(assignment, definitions, folder, lineage, ChildHooks(first))
    try:
        outcome = _outcome(work, work.inputs(files))
    except (OSError, TallymanError) as error:
        storage = isinstance(error, OSError)
        why = StorageFailed(str(target), str(error)) if storage else error
        outcome = failed(lineage, target, assignment.attempt, why)
    return MadeTarget(outcome=outcome.after(first), description=described)


def _outcome(work: TargetWork, inputs: TargetInputs) -> TargetOutcome:
    reused = work.reused(inputs.pins)
    if reused is not None:
        return reused
    described = work.started(inputs)
    return work.outcome(described, work.make(described, inputs), inputs.pins)
