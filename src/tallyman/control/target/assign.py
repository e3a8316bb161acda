"""Assign a target: look up in the database what making it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tallyman.control.bind.inputs import Pins
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.publish.declared import datasets_made_with, rejections_dataset
from tallyman.control.target.assignment import Assignment, EarlierResult
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.options import Options
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import Reading, Target, readings
from tallyman.domain.version.dataset import Dataset, Fragment
from tallyman.registry.database import Transaction
from tallyman.registry.run.reads import Reads
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True)
class Assigner:
    """Assigns the targets of one run."""

    definitions: Definitions
    run: RunRecord
    options: Options
    pins: Pins
    _known: dict[str, dict[str, Dataset]] = field(default_factory=dict)
    """The datasets of each asset."""

    def assign(self, target: Target, attempt: int) -> Assignment:
        """Assign a target; raise DependencyNotReady if an input is not there."""
        asset = self.definitions.pipeline.assets[target.asset]
        inputs = self.pins.assigned(target)
        datasets = self._datasets(asset)
        own = datasets[asset.dataset]
        # The result of a replay is of other records than an earlier one.
        replays = self.options.replay_of is not None
        wanted = not replays and target.asset not in self.options.force
        appends = asset.update_strategy == "append"
        return Assignment(
            run=self.run,
            target=target,
            attempt=attempt,
            options=self.options,
            inputs=inputs,
            datasets=datasets,
            own=asset.dataset,
            there=tuple(published(self.pins, target)) if appends else (),
            before={} if replays else self._before(target, asset, own),
            earlier=self._earlier(target, asset, own, datasets) if wanted else None,
        )

    def _before(self, target: Target, asset: Asset, own: Dataset) -> dict[str, int]:
        """Return the records of each input that the current version was made from. Deliveries that
        are appended to each other may differ in size: of such an asset, only references count."""
        ordinal = self.run.pins.get(own.id, 0)
        read = self.definitions.database.durably(
            lambda tx: Reads(tx).records_read(own.id, ordinal, target.partition)
        )
        if not read:
            return {}
        plan = self.definitions.plan(asset)
        apart = accounted_inputs(plan) if asset.update_strategy == "append" else ()
        same = {(one.name, one.partition) for one in readings(self.definitions.pipeline, target)}
        kept = {name: rows for (name, partition), rows in read.items() if (name, partition) in same}
        return {name: rows for name, rows in kept.items() if name not in apart}

    def _datasets(self, asset: Asset) -> dict[str, Dataset]:
        """Register the datasets that the asset may fill: its own, and those published with it."""
        if asset.name in self._known:
            return self._known[asset.name]
        wanted = datasets_made_with(asset, self.definitions.plan(asset), self.run.owner)
        self._known[asset.name] = self.definitions.database.durably(
            lambda tx: {one.name: Datasets(tx).ensure(one) for one in wanted}
        )
        return self._known[asset.name]

    def _earlier(
        self, target: Target, asset: Asset, own: Dataset, datasets: Mapping[str, Dataset]
    ) -> EarlierResult | None:
        """Return the last success by the same definition, if its files are there.

        An asset that reads the clock is never unchanged: the time differs in every run.
        """
        definitions = self.definitions
        if definitions.asks_time(target.asset):
            return None
        last = definitions.last_success(target)
        if last is None or last.definition_hash != definitions.hash(target.asset):
            return None
        if not self._still_there(target, last, own.id):
            return None
        rejections, prepared = rejections_dataset(asset, self.run.owner), None
        if rejections is not None:
            prepared = self._prepared(last, datasets[rejections.name])
        appends = asset.update_strategy == "append"
        there = published(self.pins, target) if appends else []
        return EarlierResult(made=last, rows=self._rows(last, there), rejections=prepared)

    def _rows(self, last: Materialization, there: list[Fragment]) -> int:
        """Count the rows of a result, those that replays added to it, and those it appends to."""
        assert last.fragment_id is not None
        own = {last.fragment_id: last.id}

        def work(tx: Transaction) -> dict[UUID, Fragment]:
            return Fragments(tx).get(own) | Fragments(tx).reused(own, self.run.pins)

        found = self.definitions.database.durably(work)
        return sum(one.rows for one in (found | {one.id: one for one in there}).values())

    def _prepared(self, last: Materialization, dataset: Dataset) -> UUID | None:
        """Return the fragment with the rejections of an earlier result, if it was prepared for the
        declared dataset."""
        definitions = self.definitions
        found = definitions.database.durably(
            lambda tx: Fragments(tx).of_result(last.id, dataset.id)
        )
        there = definitions.workspace.warehouse.has
        return next((fragment.id for fragment in found if there(fragment)), None)

    def _still_there(self, target: Target, last: Materialization, dataset: UUID) -> bool:
        """True if the result's files exist and rows it appended were not removed since."""

        def work(tx: Transaction) -> bool:
            found = Fragments(tx).get([last.fragment_id] if last.fragment_id else [])
            there = self.definitions.workspace.warehouse.has
            if not any(f.dataset_id == dataset and there(f) for f in found.values()):
                return False
            beside = {UUID(one) for one in last.metadata.get("registered", ())}
            if beside - Fragments(tx).get(beside).keys():
                return False
            if self.definitions.pipeline.assets[target.asset].update_strategy != "append":
                return True
            if not any(fragment.rows for fragment in found.values()) and last.completed_at:
                return not Commits(tx).gone_back_since(dataset, last.completed_at)
            pinned = self.run.pins.get(dataset, 0)
            return last.fragment_id in Fragments(tx).at(dataset, pinned)

        return self.definitions.database.durably(work)


def published(pins: Pins, target: Target) -> list[Fragment]:
    """List the published fragments of the target: of its partition, if it has one."""
    found = pins.fragments(Reading(target.asset, target.partition, of_source=False))
    return [f for f in found if f.since is not None]


def files_there(pins: Pins, target: Target) -> list[str]:
    """List the published files of the target."""
    there = published(pins, target)
    pins.workspace.warehouse.check(target.asset, there)
    return pins.workspace.warehouse.paths(there)
