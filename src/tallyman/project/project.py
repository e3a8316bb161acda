"""The parts of an opened project, and the everyday verbs of all of them on one object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.rejections.rejections import Rejections
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.project.checks import ProjectChecks
from tallyman.project.datasets import ProjectDatasets
from tallyman.project.lineage import ProjectLineage
from tallyman.project.making import ProjectMaking
from tallyman.project.plans import ProjectPlans
from tallyman.project.rows import ProjectRows
from tallyman.project.runs import ProjectRuns
from tallyman.project.seals import ProjectSeals
from tallyman.project.tables import ProjectTables
from tallyman.project.versions import ProjectVersions
from tallyman.registry.database import Database
from tallyman.settings import Settings, read_settings


class Project:
    """`Project.open("path").run()`; Spark and the database start when they are first needed.

    Each part answers for one noun. The verbs below the parts are theirs, under shorter names.
    """

    def __init__(self, settings: Settings) -> None:
        self.workspace = workspace = Workspace.open(settings)
        self.runs = runs = ProjectRuns(workspace)
        self.making = making = ProjectMaking(workspace)
        self.plans = plans = ProjectPlans(workspace)
        self.datasets = datasets = ProjectDatasets(workspace)
        self.versions = versions = ProjectVersions(workspace)
        self.tables = tables = ProjectTables(workspace)
        self.rows = rows = ProjectRows(workspace)
        self.checks = checks = ProjectChecks(workspace)
        self.seals = seals = ProjectSeals(workspace)
        self.lineage = lineage = ProjectLineage(workspace)
        self.rejections = Rejections(workspace)

        self.run, self.backfill, self.resume = making.run, making.backfill, making.resume
        self.select, self.cancel, self.decide = making.select, making.cancel, making.decide
        self.invalidate = making.invalidate
        self.plan, self.apply = plans.plan, plans.apply

        self.find_run, self.latest, self.result_of = runs.find, runs.latest, runs.result_of
        self.materializations, self.target = runs.materializations, runs.target
        self.folder, self.folder_of, self.known = runs.folder, runs.folder_of, runs.known
        self.report, self.compare, self.trace = runs.report, runs.compare, runs.trace
        self.chosen = runs.chosen

        self.resolve, self.heads, self.stale = datasets.resolve, datasets.heads, datasets.stale
        self.commits, self.snapshots = datasets.commits, datasets.snapshots
        self.damaged = datasets.damaged
        self.snapshot, self.rollback = versions.snapshot, versions.rollback
        self.rename, self.hide, self.expose = versions.rename, versions.hide, versions.expose
        self.purge = versions.purge
        self.cleanup, self.cleanup_events = versions.cleanup, versions.cleanup_events
        self.mutate, self.load = tables.mutate, tables.load

        self.read, self.diff = rows.read, rows.diff
        self.why, self.where = rows.why, rows.where
        self.verify, self.chain = seals.verify, seals.chain
        self.check_inputs, self.reproduce = checks.check_inputs, checks.reproduce
        self.lineage_state, self.flush_lineage = lineage.state, lineage.flush

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        *,
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> Self:
        return cls(read_settings(folder).with_spark(master, spark_conf or {}))

    @property
    def settings(self) -> Settings:
        return self.workspace.settings

    @property
    def pipeline(self) -> Pipeline:
        return self.workspace.pipeline

    @property
    def database(self) -> Database:
        return self.workspace.database

    @property
    def warehouse(self) -> Warehouse:
        return self.workspace.warehouse

    @property
    def spark(self) -> SparkSession:
        """The session. With it comes PySpark's mode, local or Connect, until another project's is
        used or this project is closed."""
        return self.workspace.spark()

    def close(self) -> None:
        self.workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
