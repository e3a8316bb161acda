"""A project opened by one process: settings, pipeline, warehouse, database and Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.control.compile import child
from tallyman.control.compile.handover import Handover
from tallyman.domain.compiled import form
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.pipeline_version import PipelineVersion, version_hash
from tallyman.domain.version.owner import Owner
from tallyman.engine.spark import short_runs
from tallyman.engine.spark.project_session import ProjectSession
from tallyman.engine.spark.settings import quiet_for, settings_for
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import PipelineOutOfReach, PlanDamaged
from tallyman.registry.database import Database
from tallyman.registry.run.pipelines import Pipelines
from tallyman.settings import FILE, Settings, read_settings
from tallyman.state_folder import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallyman.control.pipeline.check import Definition


FEW_ASSETS = 20
"""The most assets of a short run: to plan many of them, Java needs its better code."""
_PATTERN = re.compile(r"[*?\[{]")


@dataclass(frozen=True, eq=False)
class Workspace:
    """An open project. Pipeline, Spark and database are loaded or started on first use."""

    settings: Settings
    database: Database
    session: ProjectSession
    declared: Pipeline | None = None
    """The pipeline, if it is already known; otherwise it is read from the project's folder."""
    stored: PipelineVersion | None = None
    """The stored version that is used in place of the project's files, if any."""
    checked: dict[tuple[str, ...], Definition] = field(default_factory=dict)
    """Checks done in this process: the pipeline cannot change while it is loaded."""

    @classmethod
    def open(cls, settings: Settings) -> Workspace:
        """Open a project; raise OtherFormat if an earlier Tallyman made it."""
        for folder in {settings.state_folder, settings.server_folder}:
            check(folder)
        given = settings.database
        database = Database(given.reveal() if given else None, settings.server_folder)
        return cls(settings, database, ProjectSession(settings.master, settings.state_folder))

    @property
    def name(self) -> str:
        """The name of the project."""
        return self.settings.name

    @property
    def owner(self) -> Owner:
        """The pipeline as it is known in the database."""
        return self.settings.owner

    @property
    def home(self) -> Path:
        return self.settings.home

    @property
    def actor(self) -> str:
        return self.settings.actor

    @cached_property
    def pipeline(self) -> Pipeline:
        return self.declared if self.declared is not None else self.compiled().pipeline()

    def at(self, version: PipelineVersion) -> Workspace:
        """Return the project with a stored version of its pipeline, in place of its files."""
        if (found := version_hash(version.plan)) != version.hash:
            raise PlanDamaged(version.hash, found)
        declared = Pipeline.of(form.read_text(version.plan))
        return replace(self, declared=declared, stored=version, checked={})

    @cached_property
    def plan_text(self) -> str:
        """The pipeline in its compiled form; DefinitionError if an asset has no plan."""
        if self.stored is not None:
            return self.stored.plan
        return form.text_of_document(form.write(self.pipeline))

    def version(self) -> str:
        """Return the hash of the pipeline's version, which is that of its plan."""
        return version_hash(self.plan_text)

    def compiled(self) -> Handover:
        """Compile the project's files as they are now."""
        return child.compile_in_child(self.home / self.settings.pipelines)

    def other(self, owner: Owner) -> Workspace:
        """Open the project of another pipeline, with the database and the session of this one."""
        found = self.database.durably(lambda tx: Pipelines(tx).home(owner))
        if found is None:
            raise PipelineOutOfReach(owner.project, "it has never run")
        if not (Path(found) / FILE).is_file():
            raise PipelineOutOfReach(owner.project, f"there is no project in {found}")
        settings = read_settings(found)
        if settings.owner != owner:
            why = f"{found} is the project of {settings.owner} now"
            raise PipelineOutOfReach(owner.project, why)
        if settings.redacted:
            # Its keyed hashes cannot be compared with those of this project.
            raise PipelineOutOfReach(owner.project, "it redacts columns")
        return Workspace(settings, self.database, self.session)

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse_folder, self.owner)

    def ends_soon(self) -> None:
        """Note that this process ends after one command: if the pipeline that runs has few assets
        and little data, Spark is started for a short run."""
        self.session.ends_soon = True

    def has_little_to_do(self) -> bool:
        """True if a run of the pipeline is short: few assets, little data."""
        few = len(self.pipeline.assets) <= FEW_ASSETS
        return few and short_runs.is_little(self._data())

    def _data(self) -> Iterator[Path]:
        """List the places of everything that a run may read: sources, and all versions."""
        for source in self.pipeline.sources.values():
            path = source.path.removeprefix("file://")
            fixed = _PATTERN.split(path)[0]
            yield self.home / (fixed if fixed == path else os.path.dirname(fixed))
        yield self.settings.warehouse_folder

    def spark(self) -> SparkSession:
        return self.session.get(self.settings.spark, self._quiet, self.has_little_to_do)

    @property
    def _quiet(self) -> Mapping[str, str]:
        return quiet_for(self.settings.master, self.settings.redacted)

    @contextmanager
    def with_spark(self, conf: Mapping[str, str]) -> Iterator[tuple[Workspace, list[str]]]:
        """Yield the project with another run's Spark settings, and the settings that cannot be
        applied."""
        own = self.settings
        if settings_for(own.master, own.spark) == settings_for(own.master, conf):
            yield self, []
            return
        with self.session.lent(own.spark, conf, self._quiet) as refused:
            other = replace(own, spark=dict(conf))
            yield replace(self, settings=other, declared=self.pipeline, checked={}), refused

    def close(self) -> None:
        """Release the database, whose embedded server stops when nobody else uses it, and PySpark's
        mode. The session stays open: other projects of this process share it."""
        self.session.leave_mode()
        self.database.close()
