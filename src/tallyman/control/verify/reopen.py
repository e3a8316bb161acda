"""Reopen a target of a past run: with its current plan, and the inputs recorded then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from uuid import UUID

from pyspark.sql import SparkSession

from tallyman.control.bind.inputs import Pins
from tallyman.control.pipeline import check
from tallyman.control.pipeline.check import Definition
from tallyman.control.pipeline.redaction import redaction_then
from tallyman.control.pipeline.shared import shared_inputs
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.target_inputs import Corrections, TargetInputs
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.source.source import Input
from tallyman.registry.run.materializations import Materializations


@dataclass
class Again:
    """One target of a past run. Spark starts when its inputs are opened."""

    target: Target
    place: Path
    run: UUID
    clock: datetime
    """The run's clock: the time its expressions saw."""
    pins: Pins

    @property
    def _workspace(self) -> Workspace:
        return self.pins.workspace

    def spark(self) -> SparkSession:
        return self._workspace.spark()

    @cached_property
    def ledger(self) -> StoredLedger:
        return ledger_in(self.place)

    @property
    def asset(self) -> Asset:
        return self._workspace.pipeline.assets[self.target.asset]

    @cached_property
    def definition(self) -> Definition:
        workspace, needed = self._workspace, [self.target.asset]
        assets = check.upstream(workspace.pipeline, needed) & set(workspace.pipeline.assets)
        shared = shared_inputs(workspace, workspace.spark(), assets, self.pins.ordinals)
        return check.check(workspace.spark(), workspace.pipeline, needed, workspace.home, shared)

    @property
    def plan(self) -> Frame:
        return self.definition.plan(self.target)

    @cached_property
    def inputs(self) -> dict[str, Input]:
        database = self._workspace.database
        from_registry = database.durably(lambda tx: Materializations(tx).of_run(self.run))
        made = next((m for m in from_registry if m.target == self.target), None)
        pins = self.pins.recorded(made) if made else self.pins.of(self.target)
        hiding = redaction_then(self._workspace.settings, self.ledger)
        corrections = Corrections.kept_in(self.place, set(accounted_inputs(self.plan)))
        found = TargetInputs(pins, corrections)
        return found.open(self.spark(), self.definition, hiding, self._workspace.home)

    @property
    def accounted(self) -> list[Input]:
        return [self.inputs[name] for name in accounted_inputs(self.plan)]
