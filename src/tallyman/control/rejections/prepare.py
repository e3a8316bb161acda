"""Prepare a replay: choose the records, check that they can be replayed, and write what it
reads."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tallyman.control.bind.changes import changes
from tallyman.control.bind.inputs import Pins
from tallyman.control.pipeline.check import Definition
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.redaction import redaction
from tallyman.control.rejections.correct import TargetCorrections, check_fields
from tallyman.control.rejections.find import RejectedRecord, Standing
from tallyman.control.rejections.replay import TargetReplay
from tallyman.control.target.target_inputs import open_inputs
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.pipeline.target import readings
from tallyman.domain.version.dataset import Kind
from tallyman.engine.expressions.column_names import KEY
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.replay_folder import CORRECTED, FACTS, FOLDER, KEYS
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.source.corrections import (
    APART,
    LINE,
    VALID,
    CorrectionShape,
    corrections,
    keys_in,
    treats_each_by_itself,
)
from tallyman.engine.source.source import Input
from tallyman.errors import (
    CorrectionsRefused,
    DefinitionChanged,
    InputMissing,
    NotReplayable,
    RejectionsOutdated,
    SourceChanged,
    UsageError,
)
from tallyman.registry.database import Transaction
from tallyman.registry.run.replays import Replays
from tallyman.registry.run.resolutions import Resolutions
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The preparation of one replay. All files are written under `aside`, which is deleted at the
    end."""

    definitions: Definitions
    rejected: RejectedRecord
    aside: Path
    ordinals: Mapping[UUID, int]
    """The versions of all datasets when the replay was requested."""

    def items(self, corrected: Path | None) -> list[TargetReplay]:
        """Prepare every target; raises everything that prevents the replay before the run writes
        anything."""
        chosen = self.rejected.letters.targets()
        if corrected is not None and chosen:
            chosen = self._named(chosen, corrected)
        items: list[TargetReplay] = []
        database = self.definitions.database
        for name in chosen:
            one = self.rejected.standings[name]
            database.durably(lambda tx, one=one: self._check_current(tx, one))
        for number, (name, count) in enumerate(chosen.items()):
            one, folder = self.rejected.standings[name], self.aside / str(number)
            self._write_keys(one, folder)
            items.append(self._prepared(one, count, folder, corrected))
        return items

    def check(self) -> None:
        """Check without Spark that the plan is the same."""
        for name in self.rejected.letters.targets():
            one = self.rejected.standings[name]
            if one.row.definition_hash != self.definitions.hash(one.target.asset):
                raise DefinitionChanged(one.run, one.target.asset)

    # ---- checks ----------------------------------------------------------------------------

    def _check_current(self, tx: Transaction, one: Standing) -> None:
        """Check that readers see the result of the run."""
        owner, asset = self.definitions.settings.owner, one.target.asset
        dataset = Datasets(tx).of_producer(owner, asset, Kind.ASSET)
        ordinal = self.ordinals.get(dataset.id, 0) if dataset else 0
        live = Fragments(tx).at(dataset.id, ordinal).values() if dataset else ()
        here = [f for f in live if f.partition == one.target.partition]
        if not here or not one.line or not one.row.status.good:
            raise RejectionsOutdated(one.run, str(one.target), None)
        if one.root.id != one.result:
            self._check_resolved(tx, one)
        own, same = {link.id for link in one.line}, {link.digest for link in one.line}
        if self.definitions.pipeline.assets[asset].update_strategy == "append":
            # Other runs have appended before and since; only the run's own rows, if there were any,
            # must not have been removed.
            appended = sum(f.rows for f in Fragments(tx).of_result(one.result, here[0].dataset_id))
            kept = [f for f in here if f.materialization_id in own]
            here = kept if kept or not appended else here
        foreign = [f for f in here if f.materialization_id not in own and f.digest not in same]
        if foreign:
            made = [f.materialization_id for f in foreign if f.materialization_id]
            runs = Replays(tx).runs_of(made)
            raise RejectionsOutdated(one.run, str(one.target), runs[0] if runs else None)

    def _check_resolved(self, tx: Transaction, one: Standing) -> None:
        """Refuse rejections of a replay that was not published: they are still open in the run
        before it."""
        if not Resolutions(tx).resolved(one.run_id) or one.run_id in one.taken_back:
            before = next(link for link in one.line if link.id == _replayed(one))
            raise RejectionsOutdated(one.run, str(one.target), before.run)

    # ---- which records ---------------------------------------------------------------------

    def _named(self, chosen: Mapping[str, int], corrected: Path) -> dict[str, int]:
        """Restrict the replay to the records that the file names."""
        assets = sorted({self.rejected.standings[name].target.asset for name in chosen})
        if len(assets) > 1:
            raise UsageError(f"--with: choose the asset with --asset: {', '.join(assets)}")
        given = self._given(corrected)
        one = self.rejected.standings[next(iter(chosen))]
        self._check_shown(one)
        lines = corrections(self._shape(one), str(given), self._project).every_line()
        check_fields(lines, self._shape(one).schema.names)
        table = lines.select(LINE, VALID, F.col(KEY).alias("key")).toArrow()
        own_files = any(
            reading.name in self._accounted(one) and reading.partition is not None
            for reading in readings(self.definitions.pipeline, one.target)
        )
        wrong = self.rejected.letters.narrow(table, by_target=own_files)
        if wrong or not table.num_rows:
            raise CorrectionsRefused(table.num_rows, wrong)
        return self.rejected.letters.targets()

    def _check_shown(self, one: Standing) -> None:
        """Refuse corrections of redacted columns: the folder of a replay keeps corrected records as
        given."""
        shape = self._shape(one)
        hidden = [name for name in shape.schema.names if self._redaction.covers(name)]
        if hidden:
            why = (
                f"{', '.join(hidden)} of {shape.name} is redacted, and corrected records would be "
                "stored unredacted. Correct them in the source and run again"
            )
            raise NotReplayable(str(one.target), why)

    @property
    def _redaction(self) -> Redaction:
        return redaction(self.definitions.settings, self._definition.plans.values())

    def _given(self, corrected: Path) -> Path:
        """Copy the file, because it may change while it is read."""
        if not corrected.is_file():
            raise InputMissing("--with", str(corrected), "Expected a file of JSON lines.")
        copy = self.aside / "given.jsonl"
        if not copy.exists():
            shutil.copyfile(corrected, copy)
        return copy

    @property
    def _project(self) -> Path:
        return self.definitions.settings.home

    @property
    def _spark(self) -> SparkSession:
        return self.definitions.spark()

    @property
    def pins(self) -> Pins:
        return Pins(self.definitions.workspace, ordinals=self.ordinals)

    def _accounted(self, one: Standing) -> list[str]:
        return accounted_inputs(self._definition.plan(one.target))

    @property
    def _definition(self) -> Definition:
        return self.definitions.checked()

    def _shape(self, one: Standing) -> CorrectionShape:
        """Describe the only input that corrected records can belong to."""
        names = list(dict.fromkeys(self._accounted(one)))
        if len(names) > 1:
            why = f"records come from {', '.join(names)}, and a correction does not say which"
            raise NotReplayable(str(one.target), why)
        pipeline, name = self.definitions.pipeline, names[0]
        source = pipeline.sources.get(name)
        key = source.key if source else self._definition.key_of(name)
        schema, options = self._definition.schemas[name], source.options if source else {}
        return CorrectionShape(name, self._spark, schema, tuple(key), options)

    def _opened(self, one: Standing) -> dict[str, Input]:
        names = set(self._accounted(one))
        pins = self.pins.recorded(one.row)
        wanted = {name: pin for name, pin in pins.items() if name in names}
        return open_inputs(self._spark, self._definition, wanted, self._redaction)

    # ---- how the records are read ----------------------------------------------------------

    def _write_keys(self, one: Standing, folder: Path) -> None:
        (folder / KEYS).mkdir(parents=True)
        keys = self.rejected.letters.record_keys(str(one.target))
        pq.write_table(keys, folder / KEYS / "part-00000.parquet")

    def _prepared(
        self, one: Standing, count: int, folder: Path, corrected: Path | None
    ) -> TargetReplay:
        plan = self._definition.plan(one.target)
        accounted = accounted_inputs(plan)
        whole = not treats_each_by_itself(plan)
        asset = self.definitions.pipeline.assets[one.target.asset]
        if whole and asset.update_strategy == "append":
            why = "it combines records and appends its rows, so a replay could not replace them"
            raise NotReplayable(str(one.target), why)
        before, lines, at = one.place / FOLDER, 0, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        if corrected is not None or (before / CORRECTED).is_dir():
            lines = TargetCorrections(
                shape=self._shape(one),
                project=self._project,
                folder=folder,
                before=before,
                given=None if corrected is None else self._given(corrected),
                whole=whole,
                records=lambda: self._rejected_records(one, accounted),
                by=self.definitions.workspace.actor,
                at=at,
            ).write()
        originals = whole or lines < count
        self._check_records(one, accounted, folder, whole=whole, corrects=lines > 0)
        if originals:
            why = "all records are combined" if whole else "uncorrected records are read"
            self._check_unchanged(one, accounted, why)
        facts: dict[str, Any] = {
            "replay_of": one.run,
            "whole": whole,
            "corrected": accounted[0] if lines else None,
            "originals": originals,
            "named": lines > 0 and self._any_apart(self._shape(one), folder),
            "records": count,
            "corrected_at": at,
        }
        write_json(folder / FACTS, facts)
        return TargetReplay(
            standing=one,
            accounted=tuple(accounted),
            records=count,
            aside=folder,
            facts=facts,
        )

    def _rejected_records(self, one: Standing, accounted: list[str]) -> Input:
        self._check_unchanged(one, accounted, "corrected lines leave out fields")
        return self._opened(one)[accounted[0]]

    def _any_apart(self, shape: CorrectionShape, folder: Path) -> bool:
        written = corrections(shape, str(folder / CORRECTED), self._project)
        return bool(written.every_line().where(APART).limit(1).count())

    def _check_records(
        self, one: Standing, accounted: list[str], folder: Path, *, whole: bool, corrects: bool
    ) -> None:
        """Check that keys identify the records: two records with one key cannot be
        distinguished."""
        known = ledger_in(one.place).inputs.duplicate_keys
        alone = len(accounted) == 1  # keys are counted by input, and two may share one
        if (known == 0 and alone) or (whole and not corrects):
            return
        self._check_unchanged(one, accounted, "some of its keys may repeat")
        chosen = keys_in(self._spark, folder / KEYS)
        found: DataFrame | None = None
        for source in self._opened(one).values():
            keys = source.keys().join(chosen, KEY, "left_semi")
            found = keys if found is None else found.unionAll(keys)
        assert found is not None
        shared = found.groupBy(KEY).count().where("count > 1").select(KEY)
        if count := shared.count():
            first = [row[KEY] for row in shared.orderBy(KEY).limit(3).collect()]
            why = (
                f"{count:,} of the records share their key with another ({', '.join(first)}). "
                'Leave them out, for example --where "source_key NOT IN (…)"'
            )
            raise NotReplayable(str(one.target), why)

    def _check_unchanged(self, one: Standing, accounted: list[str], why: str) -> None:
        """Check that source files are unchanged; a dataset's version cannot change."""
        first = self._project / one.root.location
        pins = self.pins.recorded(one.row)
        now = {n: pins[n].files.content_hash for n in accounted if pins[n].reading.of_source}
        known = ledger_in(first.parent).inputs.hashes_of(accounted)
        for changed in changes({name: known.get(name) for name in now}, now):
            raise SourceChanged(one.root.run, changed.name, why, str(one.target))


def _replayed(one: Standing) -> UUID | None:
    return next(link.replays for link in one.line if link.id == one.result)
