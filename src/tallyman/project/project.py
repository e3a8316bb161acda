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


class Verb(Generic[Asked, Answer]):
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

    run = Verb("making", ProjectMaking.run)
    backfill = Verb("making", ProjectMaking.backfill)
    resume = Verb("making", ProjectMaking.resume)
    select = Verb("making", ProjectMaking.select)
    cancel = Verb("making", ProjectMaking.cancel)
    decide = Verb("making", ProjectMaking.decide)
    invalidate = Verb("making", ProjectMaking.invalidate)

    plan = Verb("plans", ProjectPlans.plan)
    apply = Verb("plans", ProjectPlans.apply)

    find_run = Verb("runs", ProjectRuns.find)
    latest = Verb("runs", ProjectRuns.latest)
    result_of = Verb("runs", ProjectRuns.result_of)
    materializations = Verb("runs", ProjectRuns.materializations)
    target = Verb("runs", ProjectRuns.target)
    folder = Verb("runs", ProjectRuns.folder)
    folder_of = Verb("runs", ProjectRuns.folder_of)
    known = Verb("runs", ProjectRuns.known)
    report = Verb("runs", ProjectRuns.report)
    compare = Verb("runs", ProjectRuns.compare)
    trace = Verb("runs", ProjectRuns.trace)
    chosen = Verb("runs", ProjectRuns.chosen)

    resolve = Verb("datasets", ProjectDatasets.resolve)
    heads = Verb("datasets", ProjectDatasets.heads)
    stale = Verb("datasets", ProjectDatasets.stale)
    commits = Verb("datasets", ProjectDatasets.commits)
    snapshots = Verb("datasets", ProjectDatasets.snapshots)
    damaged = Verb("datasets", ProjectDatasets.damaged)

    snapshot = Verb("versions", ProjectVersions.snapshot)
    rollback = Verb("versions", ProjectVersions.rollback)
    rename = Verb("versions", ProjectVersions.rename)
    hide = Verb("versions", ProjectVersions.hide)
    expose = Verb("versions", ProjectVersions.expose)
    purge = Verb("versions", ProjectVersions.purge)
    cleanup = Verb("versions", ProjectVersions.cleanup)
    cleanup_events = Verb("versions", ProjectVersions.cleanup_events)

    mutate = Verb("tables", ProjectTables.mutate)
    load = Verb("tables", ProjectTables.load)

    read = Verb("rows", ProjectRows.read)
    diff = Verb("rows", ProjectRows.diff)
    why = Verb("rows", ProjectRows.why)
    where = Verb("rows", ProjectRows.where)

    verify = Verb("seals", ProjectSeals.verify)
    chain = Verb("seals", ProjectSeals.chain)

    check_inputs = Verb("checks", ProjectChecks.check_inputs)
    reproduce = Verb("checks", ProjectChecks.reproduce)

    lineage_state = Verb("lineage", ProjectLineage.state)
    flush_lineage = Verb("lineage", ProjectLineage.flush)

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
