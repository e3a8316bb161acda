"""Definitions of the chosen assets: their hashes are available at once, their check needs Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.control.pipeline import check
from tallyman.control.pipeline.check import Definition
from tallyman.control.pipeline.redaction import shown_partitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.plan.canonical import definition_hash
from tallyman.engine.plan.code_hash import code_of, python_of
from tallyman.engine.plan.timed_plan import asks_time
from tallyman.errors import DefinitionError
from tallyman.registry.database import Database
from tallyman.registry.run.materializations import Materializations
from tallyman.settings import Settings


@dataclass
class Definitions:
    """The definitions of one pipeline in one process. Spark starts only to check or run an
    asset."""

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
        """Prepare the definitions of the chosen assets, ready to build their plans."""
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
        """Check everything chosen: return plans and schemas, or raise one error with all
        mistakes."""
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
        """Refuse partitions by a redacted column: folders, messages and events name a partition by
        its value."""
        problems = shown_partitions(self.pipeline, found.plans, self.settings.redacted)
        if problems:
            raise DefinitionError(problems)

    @property
    def is_checked(self) -> bool:
        """True if plans and schemas are already known."""
        return self.chosen in self.workspace.checked and bool(self._started)

    def check_what_is_new(self) -> None:
        """Check assets whose current definition has never succeeded, before a run begins."""
        with self._lock:
            self._hash_all()
            known = self.database.durably(
                lambda tx: Materializations(tx).known_definitions(list(self.chosen))
            )
            if any((name, self._hashes[name]) not in known for name in self.chosen):
                self.checked()

    def modified(self) -> set[str]:
        """List assets that have no result made by their current definition."""
        names = list(self.pipeline.assets)
        known = self.database.durably(lambda tx: Materializations(tx).known_definitions(names))
        return {name for name in names if (name, self.hash(name)) not in known}

    def hash(self, name: str) -> str:
        with self._lock:
            if name not in self._hashes:
                self._hashes[name] = self._hash(name)
            return self._hashes[name]

    def asks_time(self, name: str) -> bool:
        """True if the asset reads the clock: every run has another time, so it is always made
        again."""
        with self._lock:
            if name not in self._asking:
                self._asking[name] = asks_time(self._plan(self.pipeline.assets[name]))
            return self._asking[name]

    def _hash_all(self) -> None:
        for name in self.chosen:
            self.hash(name)

    def _hash(self, name: str) -> str:
        asset = self.pipeline.assets[name]
        return self.hash_of(asset, self._plan(asset))

    def hash_of(self, asset: Asset, plan: Frame) -> str:
        """Hash the definition of an asset whose plan is already built."""
        return definition_hash(
            plan,
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
            # Columns can only be built with Spark; a mistake is reported together with all others.
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
        """Hash the pipeline's code as it is written."""
        return code_of(self._folder)

    def description(self) -> dict[str, object]:
        """Describe the pipeline, for storage with its version."""
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
        """Return a function that stops the Spark jobs of a run, if Spark was started."""

        def stop() -> None:
            for session in self._started:
                session.interruptTag(tag)

        return stop
