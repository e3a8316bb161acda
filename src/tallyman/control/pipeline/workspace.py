"""A project opened by one process: settings, pipeline, warehouse, database and Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.control.pipeline import load
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.spark.mode import is_connect
from tallyman.engine.spark.project_session import ProjectSession
from tallyman.engine.spark.settings import QUIET, settings_for
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.registry.database import Database
from tallyman.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallyman.control.pipeline.check import Definition


@dataclass(frozen=True, eq=False)
class Workspace:
    """An open project. Pipeline, Spark and database are loaded or started on first use."""

    settings: Settings
    database: Database
    session: ProjectSession
    declared: Pipeline | None = None
    """The pipeline, if it is already known; otherwise it is read from the project's folder."""
    checked: dict[tuple[str, ...], Definition] = field(default_factory=dict)
    """Checks done in this process: the pipeline cannot change while it is loaded."""

    @classmethod
    def open(cls, settings: Settings) -> Workspace:
        given, state = settings.database, settings.state_folder
        database = Database(given.reveal() if given else None, state)
        return cls(settings, database, ProjectSession(settings.master, state))

    @property
    def name(self) -> str:
        """The name of the project."""
        return self.settings.name

    @property
    def home(self) -> Path:
        return self.settings.home

    @property
    def actor(self) -> str:
        return self.settings.actor

    @cached_property
    def pipeline(self) -> Pipeline:
        if self.declared is not None:
            return self.declared
        return load.load(self.home / self.settings.pipelines)

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse_folder)

    def spark(self) -> SparkSession:
        return self.session.get(self.settings.spark, self._quiet)

    @property
    def _quiet(self) -> Mapping[str, str]:
        """If columns are redacted, keep their values out of Spark's log."""
        ours = self.settings.redacted and not is_connect(self.settings.master)
        return QUIET if ours else {}

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
