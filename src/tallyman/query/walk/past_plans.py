"""Plans of assets compared with past results; Spark starts only to evaluate one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.pipeline.pipeline import Asset


@dataclass(frozen=True, slots=True)
class PastPlans:
    workspace: Workspace
    starting: Callable[[str], None] = lambda _: None
    """Called with the reason when Spark has to start, which takes a while."""

    def start_spark(self, reason: str) -> None:
        if not self.workspace.session.is_up():
            self.starting(reason)
        self.workspace.spark()

    def same(self, asset: Asset, plan: Frame, made: Materialization, run: RunRecord) -> bool:
        """True if the asset's definition is the one that made the result."""
        options = run.params.options
        evidence, thresholds = options.evidence, options.thresholds
        now = Definitions.of(self.workspace, [asset.name], evidence, thresholds)
        return now.hash_of(asset, plan) == made.definition_hash
