"""Plans of assets, built to follow past results; Spark starts only if nothing else will do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.engine.spark.mode import without_session


@dataclass(frozen=True, slots=True)
class PastPlans:
    workspace: Workspace
    starting: Callable[[str], None] = lambda _: None
    """Called with the reason when Spark has to start, which takes a while."""

    def plan(self, asset: Asset) -> Frame:
        """Build the plan. One with Columns is built with those of Spark Connect, which need no
        session; they serve to read the plan, not to evaluate it."""
        try:
            return asset.plan()
        except Exception:
            plan = None if self.workspace.session.is_up() else without_session(asset.plan)
        return plan if plan is not None else self.with_spark(asset)

    def with_spark(self, asset: Asset) -> Frame:
        self.start_spark(f"the plan of {asset.name} is built from Columns")
        return asset.plan()

    def start_spark(self, reason: str) -> None:
        if not self.workspace.session.is_up():
            self.starting(reason)
        self.workspace.spark()

    def same(self, asset: Asset, plan: Frame, made: Materialization, run: RunRecord) -> bool:
        """True if the asset's definition is the one that made the result."""
        options = run.params.options
        evidence, thresholds = options.evidence, options.thresholds
        now = Definitions.of(self.workspace, [asset.name], evidence, thresholds)
        if now.hash_of(asset, plan) == made.definition_hash:
            return True
        try:
            asset.plan()
        except Exception:
            # Some Columns have another text in Spark Connect: only Spark itself knows.
            plan = self.with_spark(asset)
        return now.hash_of(asset, plan) == made.definition_hash
