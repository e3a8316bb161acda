"""Prepare fragments: make a target's output durable and described, before any version has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from tallyman import faults
from tallyman.control.publish.fragment import described
from tallyman.control.target.assignment import Assignment
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.evidence import append
from tallyman.engine.evidence.content import measure
from tallyman.engine.expressions.column_names import SYSTEM
from tallyman.engine.files.listing import sha256
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.readback.rejected_rows import write_rejected
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.engine.working.working_run import outputs_in
from tallyman.errors import RunDamaged
from tallyman.faults import Point


@dataclass(frozen=True, slots=True)
class PreparedFragments:
    """Prepares the fragments of one assigned target. `opened` is called with each before its first
    file is in the warehouse."""

    assignment: Assignment
    warehouse: Warehouse
    home: Path
    opened: Callable[[Fragment], None]

    def prepare(
        self, spark: SparkSession, asset: Asset, place: Path, digest: str
    ) -> tuple[Fragment, dict[str, Any]]:
        """Prepare the fragment; for an append also count the new rows."""
        counts: dict[str, Any] = {}
        output = place / "output"
        if asset.update_strategy == "append":
            there = self.assignment.there
            self.warehouse.check(asset.name, there)
            current, aside = self.warehouse.paths(there), self._aside("appended")
            kept = append.new_rows(spark, output, current, asset.unique_key, aside)
            counts = {"rows_appended": kept.rows, "rows_already_there": kept.dropped}
            output, digest = kept.folder, kept.digest or digest
        return self._take(self.assignment.own, digest, _hashes(place, output)), counts

    def registered(self, spark: SparkSession, place: Path) -> tuple[Fragment, ...]:
        """Prepare the datasets that output steps and a split register in addition to the asset's
        own."""
        found = []
        for one in outputs_in(place):
            if one["register_as"] is None:
                continue
            folder = place / "outputs" / one["id"]
            content = measure(spark.read.parquet(str(folder)).drop(SYSTEM))
            hashed = _hashes(place, folder)
            found.append(self._take(str(one["register_as"]), content.digest, hashed))
        return tuple(found)

    def rejections(self, asset: Asset, place: Path, tallied: int) -> Fragment | None:
        """Prepare the rejections of a result, from its dead letters: as many as it tallied. None if
        they are not published."""
        if asset.publish_rejections is None:
            return None
        folder = self._aside("rejections")
        made = write_rejected(self.home, place, self.assignment.target.partition, folder)
        if made.rows != tallied:
            shown = os.path.relpath(place / "errors", self.home)
            raise RunDamaged(shown, f"{made.rows:,} dead letters, and the tally has {tallied:,}")
        hashed = {made.file: sha256(str(made.file))}
        return self._take(asset.publish_rejections, made.digest, hashed)

    def _take(self, name: str, digest: str, hashed: Mapping[Path, str]) -> Fragment:
        """Take the files into the warehouse by hard link: they get a second name, and no bytes are
        copied."""
        dataset = self.assignment.datasets[name]
        partition = self.assignment.target.partition
        own = self.assignment.opened.get(name) or uuid4()
        fragment = Fragment(id=own, dataset_id=dataset.id, partition=partition, digest=digest)
        self.opened(fragment)
        faults.reach(Point.FRAGMENT_OPENED)
        files = self.warehouse.take(hashed, dataset.id, fragment.id)
        fragment = replace(fragment, files=files)
        return described(self.warehouse, dataset, fragment)

    def _aside(self, what: str) -> Path:
        """Return a scratch folder outside the files of the ledger; it is removed when the run
        ends."""
        run = self.home / self.assignment.run.folder
        return run / ".staging" / f"{what}-{uuid4()}"


def _hashes(place: Path, output: Path) -> dict[Path, str]:
    """Return the files' hashes from the ledger, so that what is published is what was proved."""
    files = sorted(output.glob("*.parquet"))
    known = ledger_in(place).files if output.is_relative_to(place) else None
    listed = known or {}
    names = {file: os.path.relpath(file, place) for file in files}
    new = {file: sha256(str(file)) for file, name in names.items() if name not in listed}
    return {file: new.get(file) or listed[name] for file, name in names.items()}
