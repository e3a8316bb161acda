"""A project from Python: open it, run it, ask it. The command line is a thin layer over this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tallyman.control import define
from tallyman.control.inputs import latest_output
from tallyman.control.run import Execution, Listener
from tallyman.domain.fate import Evidence
from tallyman.domain.pipeline import Pipeline
from tallyman.domain.run import RunIdentity, RunResult
from tallyman.domain.selection import select
from tallyman.domain.threshold import Thresholds
from tallyman.engine.columns import SYSTEM
from tallyman.engine.session import open_session
from tallyman.errors import UsageError
from tallyman.settings import Settings, read_settings


class Project:
    """`Project.open("path").run()`; Spark starts when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._definitions: dict[tuple[str, ...], define.Definition] = {}

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        *,
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> Project:
        return cls(read_settings(folder).with_spark(master, spark_conf or {}))

    @cached_property
    def spark(self) -> SparkSession:
        settings = self.settings
        return open_session(settings.master, settings.spark, str(settings.state_folder))

    @cached_property
    def pipeline(self) -> Pipeline:
        return define.load(self.settings.home / self.settings.pipelines)

    def run(
        self,
        selection: str | Sequence[str] = (),
        *,
        evidence: str | None = None,
        run_id: str | None = None,
        thresholds: Thresholds | str | Mapping[str, object] | None = None,
        listen: Listener = lambda *_: None,
    ) -> RunResult:
        """Run the selected assets, all when none is named; the result tells what became of them."""
        if evidence is not None and evidence not in tuple(Evidence):
            raise UsageError(f"evidence is 'keys' or 'digest', not {evidence!r}")
        # What can be wrong with the call itself is found before Spark starts.
        identity = RunIdentity.of(run_id, now=datetime.now(UTC))
        limits = None if thresholds is None else Thresholds.of(thresholds)
        chosen = select(self.pipeline, (selection,) if isinstance(selection, str) else selection)
        return Execution(
            spark=self.spark,
            settings=self.settings,
            pipeline=self.pipeline,
            run=identity,
            chosen=chosen,
            evidence=Evidence(evidence) if evidence else None,
            thresholds=limits,
            listen=listen,
            definitions=self._definitions,
        ).execute()

    def read(self, asset: str) -> DataFrame:
        """The newest output of an asset, as Spark sees it."""
        runs = self.settings.runs_folder
        found = self.spark.read.parquet(str(latest_output(runs, runs / "-", asset)))
        return found.drop(SYSTEM)
