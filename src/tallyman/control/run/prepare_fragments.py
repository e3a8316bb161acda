"""Prepare fragments: make a target's output durable and described, before any version has it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from pyspark.sql import SparkSession

from tallyman import faults
from tallyman.control.bind.inputs import Pins
from tallyman.control.publish.fragment import described
from tallyman.control.run.journal import Journal
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import Reading, Target
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.engine.evidence import append
from tallyman.engine.evidence.content import measure
from tallyman.engine.files.listing import sha256
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.working.working_run import outputs_in
from tallyman.faults import Point
from tallyman.registry.version.datasets import Datasets


@dataclass(frozen=True, slots=True)
class PreparedFragments:
    """Prepares fragments for the targets of one run."""

    journal: Journal
    pins: Pins
    datasets: Mapping[str, Dataset]

    def prepare(
        self, spark: SparkSession, asset: Asset, target: Target, place: Path, digest: str
    ) -> tuple[Fragment, dict[str, Any]]:
        """Prepare the fragment; for an append also count the new rows."""
        counts: dict[str, Any] = {}
        output = place / "output"
        if asset.update_strategy == "append":
            current = files_there(self.pins, target)
            kept = append.new_rows(spark, output, current, asset.unique_key, self._aside())
            counts = {"rows_appended": kept.rows, "rows_already_there": kept.dropped}
            output, digest = kept.folder, kept.digest or digest
        dataset = self.datasets[target.asset]
        return self.take(dataset, target.partition, digest, _hashes(place, output)), counts

    def registered(
        self, spark: SparkSession, asset: Asset, target: Target, place: Path
    ) -> tuple[Fragment, ...]:
        """Prepare the datasets that output steps register in addition to the asset's own."""
        found = []
        for one in outputs_in(place):
            if one["register_as"] is None:
                continue
            folder = place / "outputs" / one["id"]
            dataset = self._registered(asset, str(one["register_as"]))
            content = measure(spark.read.parquet(str(folder)))
            hashed = _hashes(place, folder)
            found.append(self.take(dataset, target.partition, content.digest, hashed))
        return tuple(found)

    def _registered(self, asset: Asset, name: str) -> Dataset:
        split = asset.partitioned_by
        wanted = Dataset(
            id=UUID(int=0),
            name=name,
            kind=Kind.ASSET,
            project=self.journal.run.project,
            producer=f"{asset.name}/{name}",
            partition_column=split.column if split else None,
        )
        return self.journal.database.durably(lambda tx: Datasets(tx).ensure(wanted))

    def take(
        self, dataset: Dataset, partition: str | None, digest: str, hashed: Mapping[Path, str]
    ) -> Fragment:
        """Take the files into the warehouse by hard link: they get a second name, and no bytes are
        copied."""
        warehouse = self.pins.workspace.warehouse
        fragment = Fragment(id=uuid4(), dataset_id=dataset.id, partition=partition, digest=digest)
        self.journal.opened(fragment)
        faults.reach(Point.FRAGMENT_OPENED)
        files = warehouse.take(hashed, dataset.id, fragment.id)
        fragment = replace(fragment, files=files)
        return described(warehouse, dataset, fragment)

    def _aside(self) -> Path:
        """Return a scratch folder outside the files of the ledger; it is removed when the run
        ends."""
        run = self.pins.workspace.home / self.journal.run.folder
        return run / ".staging" / f"appended-{uuid4()}"


def files_there(pins: Pins, target: Target) -> list[str]:
    """List the published files of the target: of its partition, if it has one."""
    found = pins.fragments(Reading(target.asset, target.partition, of_source=False))
    there = [f for f in found if f.since is not None]
    pins.workspace.warehouse.check(target.asset, there)
    return pins.workspace.warehouse.paths(there)


def _hashes(place: Path, output: Path) -> dict[Path, str]:
    """Return the files' hashes from the ledger, so that what is published is what was proved."""
    files = sorted(output.glob("*.parquet"))
    known = ledger_in(place).files if output.is_relative_to(place) else None
    listed = known or {}
    names = {file: os.path.relpath(file, place) for file in files}
    new = {file: sha256(str(file)) for file, name in names.items() if name not in listed}
    return {file: new.get(file) or listed[name] for file, name in names.items()}
