"""The pipeline's definitions in one process: their hashes at once, their check when Spark is up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.control.pipeline import check
from tallyman.control.pipeline.check import Definition
from tallyman.control.pipeline.redaction import hidden_columns
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.account.fate import Evidence
from tallyman.domain.account.redaction import covers
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.plan.canonical import definition_hash
from tallyman.engine.plan.code_hash import code_of, python_of
from tallyman.engine.plan.timed_plan import asks_time
from tallyman.errors import DefinitionError, Problem
from tallyman.registry.database import Database
from tallyman.registry.run.materializations import Materializations
from tallyman.settings import Settings


@dataclass
class Definitions:
    """Nothing here starts Spark unless an asset has to be checked or run."""

    workspace: Workspace
    chosen: tuple[str, ...]
    overriding_evidence: Evidence | None = None
    overriding_thresholds: Thresholds | None = None
    _hashes: dict[str, str] = field(default_factory=dict)
    _asking: dict[str, bool] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _started: list[SparkSession] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        chosen: Sequence[str],
        evidence: Evidence | None = None,
        thresholds: Thresholds | None = None,
    ) -> Definitions:
        """Definitions of the chosen assets, ready to make plans of them."""
        workspace.session.enter_mode()
        return cls(workspace, tuple(chosen), evidence, thresholds)

    @property
    def settings(self) -> Settings:
        return self.workspace.settings

    @property
    def pipeline(self) -> Pipeline:
        return self.workspace.pipeline

    @property
    def database(self) -> Database:
        return self.workspace.database

    def spark(self) -> SparkSession:
        return self.workspace.spark()

    def checked(self) -> Definition:
        """All mistakes at once, or the plans and schemas of everything chosen."""
        with self._lock:
            if self.chosen not in self.workspace.checked:
                session = self.spark()
                found = check.check(session, self.pipeline, self.chosen, self.settings.home)
                self._refuse_shown(found)
                self.workspace.checked[self.chosen] = found
            if not self._started:
                self._started.append(self.spark())
            return self.workspace.checked[self.chosen]

    def _refuse_shown(self, found: Definition) -> None:
        """A partition is called by its value: in folders, messages and events."""
        hidden = hidden_columns(found.plans.values(), self.settings.redacted)
        declared = {name: self.pipeline.assets[name].partitioned_by for name in found.plans}
        problems = [
            Problem(
                f"asset {name}",
                f"it is partitioned by {by.column!r}, which is redacted: the names of partitions "
                "would show its values",
            )
            for name, by in declared.items()
            if by is not None and covers(hidden, by.column)
        ]
        if problems:
            raise DefinitionError(problems)

    @property
    def is_checked(self) -> bool:
        """Whether asking for the plans and schemas costs nothing."""
        return self.chosen in self.workspace.checked and bool(self._started)

    def check_what_is_new(self) -> None:
        """Before a run begins: what was never run as it is now may be full of mistakes."""
        with self._lock:
            self._hash_all()
            known = self.database.durably(
                lambda tx: Materializations(tx).known_definitions(list(self.chosen))
            )
            if any((name, self._hashes[name]) not in known for name in self.chosen):
                self.checked()

    def modified(self) -> set[str]:
        """Assets that have no result made by their present definition."""
        names = list(self.pipeline.assets)
        known = self.database.durably(lambda tx: Materializations(tx).known_definitions(names))
        return {name for name in names if (name, self.hash(name)) not in known}

    def hash(self, name: str) -> str:
        with self._lock:
            if name not in self._hashes:
                self._hashes[name] = self._hash(name)
            return self._hashes[name]

    def asks_time(self, name: str) -> bool:
        """True if the asset reads the clock: each run is another time, so it is made again."""
        with self._lock:
            if name not in self._asking:
                self._asking[name] = asks_time(self._plan(self.pipeline.assets[name]))
            return self._asking[name]

    def _hash_all(self) -> None:
        for name in self.chosen:
            self.hash(name)

    def _hash(self, name: str) -> str:
        asset = self.pipeline.assets[name]
        return definition_hash(
            self._plan(asset),
            asset=asset,
            sources=self.pipeline.sources,
            evidence=self.evidence(asset),
            thresholds=self.thresholds(asset),
            code=python_of(self._folder),
        )

    def _plan(self, asset: Asset) -> Frame:
        try:
            return asset.plan()
        except Exception:
            # Columns can only be made when Spark is up; a mistake is reported with all others.
            self.checked()
            return asset.plan()

    @property
    def _folder(self) -> Path:
        return self.settings.home / self.settings.pipelines

    def evidence(self, asset: Asset) -> Evidence:
        return self.overriding_evidence or asset.evidence

    def thresholds(self, asset: Asset) -> Thresholds:
        default = Thresholds.of(self.settings.thresholds)
        return self.overriding_thresholds or asset.thresholds or default

    def last_success(self, target: Target) -> Materialization | None:
        return self.database.durably(lambda tx: Materializations(tx).last_success(target))

    def version(self) -> str:
        """Of the pipeline as it is written: what it says, not what it comes to."""
        return code_of(self._folder)

    def description(self) -> dict[str, object]:
        """What is kept of a version of the pipeline."""
        assets = {
            name: {
                "inputs": list(asset.inputs),
                "dataset": asset.dataset,
                "published": asset.publish is not False,
                "update_strategy": asset.update_strategy,
                "partitioned_by": asset.partitioned_by.column if asset.partitioned_by else None,
            }
            for name, asset in self.pipeline.assets.items()
        }
        return {"assets": assets, "tables": sorted(self.pipeline.tables)}

    def interrupt(self, tag: str) -> Callable[[], None]:
        """Stops the Spark jobs of a run, if Spark was started at all."""

        def stop() -> None:
            for session in self._started:
                session.interruptTag(tag)

        return stop
