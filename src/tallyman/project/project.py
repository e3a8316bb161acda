"""An open project: its parts, and the everyday verbs of all of them on one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Generic, ParamSpec, Self, TypeVar, overload

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.pipeline import selection
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.registry.database import Database
from tallyman.settings import Settings, read_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallyman.control.rejections.rejections import Rejections
    from tallyman.project.checks import ProjectChecks
    from tallyman.project.datasets import ProjectDatasets
    from tallyman.project.lineage import ProjectLineage
    from tallyman.project.making import ProjectMaking
    from tallyman.project.pipelines import ProjectPipelines
    from tallyman.project.plans import ProjectPlans
    from tallyman.project.rows import ProjectRows
    from tallyman.project.runs import ProjectRuns
    from tallyman.project.tables import ProjectTables
    from tallyman.project.tasks import ProjectTasks
    from tallyman.project.versions import ProjectVersions
    from tallyman.project.workers import ProjectWorkers

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer", covariant=True)
Noun = TypeVar("Noun")


class Part(Generic[Noun]):
    """A part of a project. It is imported and made when it is first used."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __set_name__(self, _: type[Project], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, project: None, _: type[Project]) -> Self: ...

    @overload
    def __get__(self, project: Project, _: type[Project]) -> Noun: ...

    def __get__(self, project: Project | None, _: type[Project]) -> Self | Noun:
        if project is None:
            return self
        module, kind = self.place.rsplit(".", 1)
        made: Noun = getattr(import_module(f"tallyman.{module}"), kind)(project.workspace)
        project.__dict__[self.name] = made
        return made


class Delegated(Generic[Asked, Answer]):
    """A method of one of the parts, under a name of the project. Imports only the part that is
    used."""

    def __init__(self, method: Callable[[Project], Callable[Asked, Answer]]) -> None:
        self.method = method

    @overload
    def __get__(self, project: None, _: type[Project]) -> Self: ...

    @overload
    def __get__(self, project: Project, _: type[Project]) -> Callable[Asked, Answer]: ...

    def __get__(self, project: Project | None, _: type[Project]) -> Self | Callable[Asked, Answer]:
        return self if project is None else self.method(project)


class Project:
    """An open project: `Project.open("path").run()`. Spark and the database start on first use.

    Each part is about one noun. The verbs are methods of the parts, under shorter names.
    """

    runs: Part[ProjectRuns] = Part("project.runs.ProjectRuns")
    making: Part[ProjectMaking] = Part("project.making.ProjectMaking")
    plans: Part[ProjectPlans] = Part("project.plans.ProjectPlans")
    pipelines: Part[ProjectPipelines] = Part("project.pipelines.ProjectPipelines")
    datasets: Part[ProjectDatasets] = Part("project.datasets.ProjectDatasets")
    versions: Part[ProjectVersions] = Part("project.versions.ProjectVersions")
    tables: Part[ProjectTables] = Part("project.tables.ProjectTables")
    rows: Part[ProjectRows] = Part("project.rows.ProjectRows")
    checks: Part[ProjectChecks] = Part("project.checks.ProjectChecks")
    lineage: Part[ProjectLineage] = Part("project.lineage.ProjectLineage")
    tasks: Part[ProjectTasks] = Part("project.tasks.ProjectTasks")
    workers: Part[ProjectWorkers] = Part("project.workers.ProjectWorkers")
    rejections: Part[Rejections] = Part("control.rejections.rejections.Rejections")

    run = Delegated(lambda project: project.making.run)
    backfill = Delegated(lambda project: project.making.backfill)
    resume = Delegated(lambda project: project.making.resume)
    watch = Delegated(lambda project: project.making.watch)
    cancel = Delegated(lambda project: project.making.cancel)
    decide = Delegated(lambda project: project.making.decide)
    invalidate = Delegated(lambda project: project.making.invalidate)

    plan = Delegated(lambda project: project.plans.plan)
    apply = Delegated(lambda project: project.plans.apply)

    find_run = Delegated(lambda project: project.runs.find)
    latest = Delegated(lambda project: project.runs.latest)
    target = Delegated(lambda project: project.runs.target)
    folder = Delegated(lambda project: project.runs.folder)
    report = Delegated(lambda project: project.runs.report)
    compare = Delegated(lambda project: project.runs.compare)

    resolve = Delegated(lambda project: project.datasets.resolve)
    heads = Delegated(lambda project: project.datasets.heads)
    stale = Delegated(lambda project: project.datasets.stale)
    commits = Delegated(lambda project: project.datasets.commits)
    damaged = Delegated(lambda project: project.datasets.damaged)

    snapshot = Delegated(lambda project: project.versions.snapshot)
    rollback = Delegated(lambda project: project.versions.rollback)
    rename = Delegated(lambda project: project.versions.rename)
    hide = Delegated(lambda project: project.versions.hide)
    expose = Delegated(lambda project: project.versions.expose)
    purge = Delegated(lambda project: project.versions.purge)
    cleanup = Delegated(lambda project: project.versions.cleanup)

    mutate = Delegated(lambda project: project.tables.mutate)
    load = Delegated(lambda project: project.tables.load)

    read = Delegated(lambda project: project.rows.read)
    diff = Delegated(lambda project: project.rows.diff)
    why = Delegated(lambda project: project.rows.why)
    where = Delegated(lambda project: project.rows.where)
    trace = Delegated(lambda project: project.rows.trace)

    check = Delegated(lambda project: project.pipelines.check)
    compiled = Delegated(lambda project: project.pipelines.compiled)

    verify = Delegated(lambda project: project.checks.verify)
    chain = Delegated(lambda project: project.checks.chain)
    reproduce = Delegated(lambda project: project.checks.reproduce)

    def __init__(self, settings: Settings) -> None:
        self.workspace = Workspace.open(settings)

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
        """The Spark session. It brings PySpark's mode, local or Connect, until another project's
        session is used or this project is closed."""
        return self.workspace.spark()

    def select(self, terms: Sequence[str]) -> list[str]:
        """List the selected assets in the order they run."""
        return selection.select(self.pipeline, terms, lambda: self.making.modified())

    def close(self) -> None:
        self.workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
