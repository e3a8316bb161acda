"""A project opened by one process: what every run and every question works with."""

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
    """Nothing is started here: the pipeline is loaded, and Spark and the database come up, when
    they are first asked for."""

    settings: Settings
    database: Database
    session: ProjectSession
    declared: Pipeline | None = None
    """The pipeline, where it is known already; else it is read from the project's folder."""
    checked: dict[tuple[str, ...], Definition] = field(default_factory=dict)
    """Checked before, in this process: the pipeline cannot change while it is loaded."""

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
        """Where columns are redacted, Spark must not show values in its own log."""
        ours = self.settings.redacted and not is_connect(self.settings.master)
        return QUIET if ours else {}

    @contextmanager
    def with_spark(self, conf: Mapping[str, str]) -> Iterator[tuple[Workspace, list[str]]]:
        """The same project with the Spark settings of another run, and what cannot be set."""
        own = self.settings
        if settings_for(own.master, own.spark) == settings_for(own.master, conf):
            yield self, []
            return
        with self.session.lent(own.spark, conf, self._quiet) as refused:
            other = replace(own, spark=dict(conf))
            yield replace(self, settings=other, declared=self.pipeline, checked={}), refused

    def close(self) -> None:
        """Let go of the database, whose own server stops when nobody else uses it, and of PySpark's
        mode. A session stays: other projects of this process have it too."""
        self.session.leave_mode()
        self.database.close()
