"""Lineage between datasets, and the events that report it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallyman.control.delivery import outbox, send
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.history.lineage import Granularity, Reached
from tallyman.project.runs import ProjectRuns
from tallyman.registry.database import Transaction
from tallyman.registry.run.lineage import Lineage


@dataclass(frozen=True, slots=True)
class ProjectLineage:
    """Lineage between results, and the delivery of lineage events."""

    workspace: Workspace

    def __call__(
        self,
        direction: str,
        asset: str,
        *,
        partition: str | None = None,
        granularity: Granularity = "partition",
    ) -> list[Reached]:
        """Walk the lineage: `up` lists what it was made from, `down` and `impact` what was made
        from it."""
        key = self._key_of(asset, partition)

        def work(tx: Transaction) -> list[Reached]:
            lineage = Lineage(tx, self.workspace.owner)
            if direction == "up":
                return lineage.up(asset, key)
            if direction == "down":
                return lineage.down(asset, key)
            return lineage.impact(asset, key, granularity=granularity)

        return self.workspace.database.durably(work)

    def _key_of(self, name: str, partition: str | None) -> str | None:
        """Parse a partition of an asset, or of a source by the partitions of an asset that reads
        it."""
        if name in self.workspace.pipeline.assets:
            return ProjectRuns(self.workspace).target(name, partition).partition
        for asset in self.workspace.pipeline.assets.values():
            if partition is not None and name in asset.inputs and asset.partitioned_by:
                return asset.partitioned_by.parse(partition)
        return partition

    def state(self) -> outbox.LineageState:
        """Return where OpenLineage events go, and how many are still waiting."""
        return outbox.state(self._outbox())

    def flush(
        self, *, refused: bool = False, listen: Callable[[int], None] = lambda _: None
    ) -> send.Flushed:
        """Send every waiting event, and with `refused` also those that were refused before."""
        return send.flush(self._outbox(), refused=refused, listen=listen)

    def _outbox(self) -> outbox.Outbox:
        settings = self.workspace.settings
        return outbox.Outbox.of(self.workspace.database, settings.owner, settings.home)
