"""Prepare fragments: make a target's output durable and described, before any version has it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tallyman import faults
from tallyman.control.publish.fragment import described
from tallyman.control.target.assignment import Assignment
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.evidence import write
from tallyman.engine.evidence.content import measure
from tallyman.engine.expressions.column_names import SYSTEM, quoted
from tallyman.engine.expressions.columns import col
from tallyman.engine.files import parquet
from tallyman.engine.files.duck import connect, text
from tallyman.engine.files.listing import sha256
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.vouched import Vouched
from tallyman.engine.readback.dead_letters import READ, files_in
from tallyman.engine.readback.rejected_columns import COLUMNS, PARTITION
from tallyman.engine.table.file import write_file
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.engine.working.working_run import outputs_in
from tallyman.errors import RowsUnaccountedFor, RunDamaged
from tallyman.faults import Point

RANK = "_tm_rank"

SCHEMA = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
BATCH = 50_000
# A sum does not depend on the order of the rows, and counts a repeated row twice.
_DIGEST = """
    SELECT count(*), coalesce(sum(md5_number_lower(row)), 0),
           coalesce(sum(md5_number_upper(row)), 0)
    FROM (SELECT to_json(r)::VARCHAR AS row FROM rejected r)
"""


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
            kept = new_rows(spark, output, current, asset.unique_key, aside)
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


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """The rejections of one target, written to a file."""

    file: Path
    rows: int
    digest: str


def write_rejected(home: Path, place: Path, partition: str | None, folder: Path) -> RejectedRows:
    """Write the dead letters in a target's folder as one Parquet file. RunDamaged if they are not
    what its ledger lists."""
    Vouched(home).check(place, "errors")
    with connect() as connection:
        connection.execute(f"CREATE VIEW rejected AS {_rejected(files_in(place), partition)}")
        [sums] = connection.execute(_DIGEST).fetchall()
        # A view: the rows go from file to file, a few at a time.
        written = write_file(folder, SCHEMA, connection.sql("FROM rejected").to_arrow_reader(BATCH))
    listed = "|".join([*COLUMNS, *map(str, sums)])
    return RejectedRows(written, int(sums[0]), hashlib.sha256(listed.encode()).hexdigest())


def _rejected(files: list[str], partition: str | None) -> str:
    if not files:
        return f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in COLUMNS)} WHERE false"
    own = "NULL" if partition is None else text(partition)
    values = COLUMNS | {PARTITION: own}
    chosen = ", ".join(f"{value}::VARCHAR AS {name}" for name, value in values.items())
    read = READ.replace("$files", f"[{', '.join(map(text, files))}]")
    return f"SELECT {chosen} FROM {read}"


@dataclass(frozen=True, slots=True)
class NewRows:
    folder: Path
    rows: int
    dropped: int
    digest: str | None = None
    """None if nothing was dropped: the rows are those that were made."""


def new_rows(
    spark: SparkSession, made: Path, current: Sequence[str], key: Sequence[str], target: Path
) -> NewRows:
    """Write the new rows to `target`, or return the made ones unchanged if all of them are new."""
    rows = spark.read.parquet(str(made))
    total = parquet.rows_in(sorted(made.rglob("*.parquet")))
    kept = _once(rows, key)
    if current:
        there = spark.read.parquet(*current).select(*(col(name) for name in key)).distinct()
        mine, theirs = kept.alias("mine"), there.alias("theirs")
        kept = mine.join(theirs, _same_key(key), "left_anti")
    left = kept.count()
    if left == total:
        return NewRows(made, total, 0)
    unfinished = target.with_name(f".{target.name}")
    kept.write.mode("overwrite").parquet(str(unfinished))
    write.move_files(unfinished, target)
    write.clear(unfinished)
    if (written := parquet.rows_in(sorted(target.rglob("*.parquet")))) != left:
        raise RowsUnaccountedFor(target.name, max(left - written, 0), max(written - left, 0), 0)
    digest = measure(spark.read.parquet(str(target)).drop(SYSTEM)).digest
    return NewRows(target, left, total - left, digest)


def _once(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keep one row per key; the choice does not depend on the order of rows."""
    plain = [F.to_json(F.struct(col(name))) for name in rows.columns if name != SYSTEM]
    first = Window.partitionBy(*(col(name) for name in key)).orderBy(*plain)
    ranked = rows.withColumn(RANK, F.row_number().over(first))
    return ranked.where(F.col(RANK) == 1).drop(RANK)


def _same_key(key: Sequence[str]) -> Column:
    """Compare keys; NULL equals NULL."""
    pairs = [F.col(f"mine.{quoted(n)}").eqNullSafe(F.col(f"theirs.{quoted(n)}")) for n in key]
    return reduce(lambda a, b: a & b, pairs)
