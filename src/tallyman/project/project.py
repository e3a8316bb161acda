"""The parts of an opened project, and the everyday verbs of all of them on one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

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

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer", covariant=True)


class Delegated(Generic[Asked, Answer]):
    """A method of one of the parts, under a name of the project."""

    def __init__(self, part: str, method: Callable[Concatenate[Any, Asked], Answer]) -> None:
        self.part, self.method = part, method

    def __get__(self, project: Project | None, _: type[Project]) -> Callable[Asked, Answer]:
        owner = self if project is None else getattr(project, self.part)
        name = "method" if project is None else self.method.__name__
        found: Callable[Asked, Answer] = getattr(owner, name)
        return found


class Project:
    """`Project.open("path").run()`; Spark and the database start when they are first needed.

    Each part answers for one noun. The verbs below the parts are theirs, under shorter names.
    """

    run = Delegated("making", ProjectMaking.run)
    backfill = Delegated("making", ProjectMaking.backfill)
    resume = Delegated("making", ProjectMaking.resume)
    select = Delegated("making", ProjectMaking.select)
    cancel = Delegated("making", ProjectMaking.cancel)
    decide = Delegated("making", ProjectMaking.decide)
    invalidate = Delegated("making", ProjectMaking.invalidate)

    plan = Delegated("plans", ProjectPlans.plan)
    apply = Delegated("plans", ProjectPlans.apply)

    find_run = Delegated("runs", ProjectRuns.find)
    latest = Delegated("runs", ProjectRuns.latest)
    result_of = Delegated("runs", ProjectRuns.result_of)
    materializations = Delegated("runs", ProjectRuns.materializations)
    target = Delegated("runs", ProjectRuns.target)
    folder = Delegated("runs", ProjectRuns.folder)
    folder_of = Delegated("runs", ProjectRuns.folder_of)
    known = Delegated("runs", ProjectRuns.known)
    report = Delegated("runs", ProjectRuns.report)
    compare = Delegated("runs", ProjectRuns.compare)
    trace = Delegated("runs", ProjectRuns.trace)
    chosen = Delegated("runs", ProjectRuns.chosen)

    resolve = Delegated("datasets", ProjectDatasets.resolve)
    heads = Delegated("datasets", ProjectDatasets.heads)
    stale = Delegated("datasets", ProjectDatasets.stale)
    commits = Delegated("datasets", ProjectDatasets.commits)
    snapshots = Delegated("datasets", ProjectDatasets.snapshots)
    damaged = Delegated("datasets", ProjectDatasets.damaged)

    snapshot = Delegated("versions", ProjectVersions.snapshot)
    rollback = Delegated("versions", ProjectVersions.rollback)
    rename = Delegated("versions", ProjectVersions.rename)
    hide = Delegated("versions", ProjectVersions.hide)
    expose = Delegated("versions", ProjectVersions.expose)
    purge = Delegated("versions", ProjectVersions.purge)
    cleanup = Delegated("versions", ProjectVersions.cleanup)
    cleanup_events = Delegated("versions", ProjectVersions.cleanup_events)

    mutate = Delegated("tables", ProjectTables.mutate)
    load = Delegated("tables", ProjectTables.load)

    read = Delegated("rows", ProjectRows.read)
    diff = Delegated("rows", ProjectRows.diff)
    why = Delegated("rows", ProjectRows.why)
    where = Delegated("rows", ProjectRows.where)

    verify = Delegated("seals", ProjectSeals.verify)
    chain = Delegated("seals", ProjectSeals.chain)

    check_inputs = Delegated("checks", ProjectChecks.check_inputs)
    reproduce = Delegated("checks", ProjectChecks.reproduce)

    lineage_state = Delegated("lineage", ProjectLineage.state)
    flush_lineage = Delegated("lineage", ProjectLineage.flush)

    def __init__(self, settings: Settings) -> None:
        self.workspace = workspace = Workspace.open(settings)
        self.runs = ProjectRuns(workspace)
        self.making = ProjectMaking(workspace)
        self.plans = ProjectPlans(workspace)
        self.datasets = ProjectDatasets(workspace)
        self.versions = ProjectVersions(workspace)
        self.tables = ProjectTables(workspace)
        self.rows = ProjectRows(workspace)
        self.checks = ProjectChecks(workspace)
        self.seals = ProjectSeals(workspace)
        self.lineage = ProjectLineage(workspace)
        self.rejections = Rejections(workspace)

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
