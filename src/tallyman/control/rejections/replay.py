"""Replaying rejections: the same plan again, for records as they were or as they are corrected.

A replay is a run of its own. Where a plan treats each record by itself, only the chosen records go
through it, and the rows that pass join those that are there. Where it combines records, all of them
go through it with the corrected ones in their place, and the result replaces what is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from tallyman.control.bind.inputs import Pin, Pins
from tallyman.control.rejections.find import RejectedRecord, Standing
from tallyman.control.run.execute import Execution
from tallyman.control.run.make import Making, Order
from tallyman.control.run.prepare_fragments import files_there
from tallyman.domain.definition.target import Target
from tallyman.domain.definition.threshold import Thresholds
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.run import AssetResult
from tallyman.engine.readback.dead_letters import rejected_keys
from tallyman.engine.source.corrections import FOLDER, overlaid
from tallyman.engine.source.source import Input
from tallyman.registry.database import Transaction
from tallyman.registry.run.replays import Replays
from tallyman.registry.run.resolutions import Resolutions

ANYTHING = Thresholds(absolute=0, percentage=1.0, window=0)
"""All of a few records that were rejected before may be rejected again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReplay:
    """One target of a replay, prepared: which records, and how they are read."""

    standing: Standing
    accounted: tuple[str, ...]
    records: int
    aside: Path
    facts: Mapping[str, Any]
    project: Path

    @property
    def target(self) -> Target:
        return self.standing.target

    @property
    def whole(self) -> bool:
        return bool(self.facts["whole"])

    @property
    def adds_to(self) -> UUID | None:
        return None if self.whole else self.standing.root.id

    def pins(self, pins: Pins) -> dict[str, Pin]:
        """Its records as they were read then; what they are compared with as it is now."""
        then, now = pins.recorded(self.standing.row), pins.of(self.target)
        return {name: then[name] if name in self.accounted else now[name] for name in now}

    def overlaid(self, inputs: dict[str, Input]) -> dict[str, Input]:
        return overlaid(inputs, self.accounted, self.aside, self.project)

    def adapted(self, order: Order, pins: Pins) -> Order:
        return replace(
            order,
            stays=() if self.whole else files_there(pins, self.target),
            replay_of=self.standing.run,
            thresholds=order.thresholds if self.whole else ANYTHING,
            overlaid=self.overlaid,
            kept=lambda place: shutil.copytree(self.aside, place / FOLDER),
        )


@dataclass
class ReplayExecution(Execution):
    """A run whose targets read other records, and that says what became of rejections."""

    items: Mapping[Target, TargetReplay] = field(default_factory=dict)
    rejected: RejectedRecord | None = None

    def _unchanged(self, target: Target, pins: Mapping[str, Pin]) -> Materialization | None:
        return None

    def _pins_of(self, target: Target) -> dict[str, Pin]:
        return self.items[target].pins(self._pins)

    def _adapted(self, order: Order) -> Order:
        return self.items[order.target].adapted(order, self._pins)

    def _record(
        self, target: Target, making: Making, pins: Mapping[str, Pin], name: str
    ) -> AssetResult:
        if making.digest is not None:
            self._resolve(self.items[target], self._folder.path / name)
        return super()._record(target, making, pins, name)

    def _resolve(self, item: TargetReplay, place: Path) -> None:
        assert self.rejected is not None
        letters, run = self.rejected.letters, self.journal.run
        first, name = item.standing, str(item.target)
        again = rejected_keys(place)

        def work(tx: Transaction) -> None:
            Replays(tx).mark(run.id, item.target, replays=first.result, adds_to=item.adds_to)
            found = letters.outcomes(name, again, all_open=item.whole)
            Resolutions(tx).add(
                first.run_id, item.target, found, actor=self.journal.actor, by_run=run.id
            )
            if item.whole:
                Resolutions(tx).carry_discards(first.run_id, item.target, to=run.id)

        self.journal.replays(work)
