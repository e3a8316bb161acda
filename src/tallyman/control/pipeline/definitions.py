"""Definitions of the chosen assets: their hashes are available at once, their check needs Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.control.pipeline.redaction import shown_partitions
from tallyman.control.pipeline.shared import FoundShared, described_shared, found_shared
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.manifest import CodeVersion
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.code.code_version import code_version, source_hash
from tallyman.engine.code.kept_files import kept_files
from tallyman.engine.plan.canonical import definition_hash
from tallyman.engine.plan.timed_plan import asks_time
from tallyman.errors import DefinitionError
from tallyman.on_demand import OnDemand
from tallyman.registry.database import Database
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallyman.control.pipeline import check
    from tallyman.control.pipeline.check import Definition
else:
    check = OnDemand("tallyman.control.pipeline.check")

PLAN = "plan:"
"""A prefix of the hash of a run's code, if the code is a stored plan."""


@dataclass
class Definitions:
    """The definitions of one pipeline in one process. Spark starts only to check or run an
    asset."""

    workspace: Workspace
    chosen: tuple[str, ...]
    overriding_evidence: Evidence | None = None
    overriding_thresholds: Thresholds | None = None
    known_shared: Mapping[str, FoundShared] | None = None
    """The shared datasets of other pipelines, if they were looked up already."""
    _hashes: dict[str, str] = field(default_factory=dict)
    _asking: dict[str, bool] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _started: list[SparkSession] = field(default_factory=list)
    _checked: dict[tuple[str, ...], Definition] = field(default_factory=dict)
    """The check, if it holds for these definitions only."""

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
            if self.chosen not in self._checks:
                session = self.spark()
                needed = check.upstream(self.pipeline, self.chosen) & set(self.pipeline.assets)
                given = self.shared(needed)
                shared = described_shared(self.workspace.warehouse, session, given)
                home = self.settings.home
                found = check.check(session, self.pipeline, self.chosen, home, shared)
                self._refuse_shown(found)
                self._checks[self.chosen] = found
            if not self._started:
                self._started.append(self.spark())
            return self._checks[self.chosen]

    @property
    def _checks(self) -> dict[tuple[str, ...], Definition]:
        """The checks to use: those of the process, unless columns are as the files of this moment
        have them: a notebook or a worker reads others in the next run."""
        sources, shared = self.pipeline.sources.values(), self.pipeline.shared
        lasting = not shared and all(source.schema is not None for source in sources)
        return self.workspace.checked if lasting else self._checked

    def shared(self, assets: Iterable[str]) -> Mapping[str, FoundShared]:
        """Find what the assets read of other pipelines."""
        if self.known_shared is not None:
            return self.known_shared
        return found_shared(self.workspace, assets)

    def _refuse_shown(self, found: Definition) -> None:
        """Refuse partitions by a redacted column: folders, messages and events name a partition by
        its value."""
        problems = shown_partitions(self.pipeline, found.plans, self.settings.redacted)
        if problems:
            raise DefinitionError(problems)

    @property
    def is_checked(self) -> bool:
        """True if plans and schemas are already known."""
        return self.chosen in self._checks and bool(self._started)

    def has_new(self) -> bool:
        """True if a chosen asset has a definition that never succeeded: check before a run."""
        with self._lock:
            self._hash_all()
            owner = self.settings.owner
            known = self.database.durably(
                lambda tx: Materializations(tx).known_definitions(owner, list(self.chosen))
            )
            return any((name, self._hashes[name]) not in known for name in self.chosen)

    def modified(self) -> set[str]:
        """List assets that have no result made by their current definition."""
        names = list(self.pipeline.assets)
        owner = self.settings.owner
        known = self.database.durably(
            lambda tx: Materializations(tx).known_definitions(owner, names)
        )
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
                self._asking[name] = asks_time(self.plan(self.pipeline.assets[name]))
            return self._asking[name]

    def _hash_all(self) -> None:
        for name in self.chosen:
            self.hash(name)

    def _hash(self, name: str) -> str:
        asset = self.pipeline.assets[name]
        return self.hash_of(asset, self.plan(asset))

    def hash_of(self, asset: Asset, plan: Frame) -> str:
        """Hash the definition of an asset whose plan is already built."""
        return definition_hash(
            plan,
            asset=asset,
            sources=self.pipeline.sources,
            evidence=self.evidence(asset),
            thresholds=self.thresholds(asset),
        )

    def plan(self, asset: Asset) -> Frame:
        """Return the plan of an asset."""
        try:
            return asset.plan()
        except DefinitionError:
            self.checked()  # report these mistakes together with those that only Spark finds
            raise

    @property
    def _folder(self) -> Path:
        return self.settings.home / self.settings.pipelines

    def evidence(self, asset: Asset) -> Evidence:
        return self.overriding_evidence or asset.evidence

    def thresholds(self, asset: Asset) -> Thresholds:
        default = Thresholds.of(self.settings.thresholds)
        return self.overriding_thresholds or asset.thresholds or default

    def last_success(self, target: Target) -> Materialization | None:
        owner = self.settings.owner
        return self.database.durably(lambda tx: Materializations(tx).last_success(owner, target))

    def version(self) -> str:
        """Return the hash of the pipeline's version, which is that of its plan."""
        return self.workspace.version()

    def code(self) -> CodeVersion:
        """Return the version of the files, or of the stored plan that is used in their place."""
        stored = self.workspace.stored
        if stored is not None:
            return CodeVersion(source_hash=f"{PLAN}{stored.hash}")
        return code_version(self._folder)

    def source_hash(self) -> str:
        """Return the hash of the files, or of the stored plan that is used in their place."""
        stored = self.workspace.stored
        return source_hash(self._folder) if stored is None else f"{PLAN}{stored.hash}"

    def pipeline_version(self) -> PipelineVersion:
        """Return the version to register. Its files are read only if it is new."""
        try:
            own, owner = self.version(), self.workspace.owner
        except DefinitionError:
            self.checked()  # report these mistakes together with those that only Spark finds
            raise
        known = self.database.durably(lambda tx: Pipelines(tx).find(owner, own))
        return known or PipelineVersion(
            hash=own,
            definition=self._description(),
            plan=self.workspace.plan_text,
            files=kept_files(self._folder),
        )

    def _description(self) -> dict[str, object]:
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
        found: dict[str, object] = {"assets": assets, "tables": sorted(self.pipeline.tables)}
        if self.pipeline.shared:
            found["datasets"] = {s.name: s.dataset for s in self.pipeline.shared.values()}
        return found

    def interrupt(self, tag: str) -> Callable[[], None]:
        """Return a function that stops the Spark jobs of a run, if Spark was started."""

        def stop() -> None:
            for session in self._started:
                session.interruptTag(tag)

        return stop
