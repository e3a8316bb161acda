"""Replay rejections: run records through the same plan again, as they were or corrected.

A replay is a run of its own. If the plan treats each record by itself, only the chosen records are
evaluated, and the rows that pass are added to the existing ones. If it combines records, all of
them are evaluated with the corrections applied, and the result replaces the existing one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from tallyman.control.bind.inputs import Pins
from tallyman.control.bind.pinned_files import Pin
from tallyman.control.rejections.find import RejectedRecord, Standing
from tallyman.control.run.target import TargetMaker
from tallyman.control.target.assign import files_there
from tallyman.control.target.make_target import TargetWork
from tallyman.control.target.target_inputs import Corrections, TargetInputs
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import ANYTHING
from tallyman.engine.asset.work import Work
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.replay_folder import KEYS
from tallyman.engine.readback.dead_letters import rejected_keys
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.errors import NotReplayable
from tallyman.registry.database import Transaction
from tallyman.registry.run.replays import Replays
from tallyman.registry.run.resolutions import Resolutions


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReplay:
    """One prepared target of a replay: its records, and how to read them."""

    standing: Standing
    accounted: tuple[str, ...]
    records: int
    aside: Path
    facts: Mapping[str, Any]

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
        """Pin the records as the first run read them, and all other inputs as they are now."""
        then, now = pins.recorded(self.standing.row), pins.of(self.target)
        return {name: then[name] if name in self.accounted else now[name] for name in now}

    def check_read(self, place: Path) -> None:
        """Refuse a result that was not made of exactly the chosen records. One that combines
        records reads all of them."""
        if self.whole:
            return
        [keys] = pq.read_table(self.aside / KEYS).columns
        chosen, read = digest_of(keys.to_pylist()), ledger_in(place).inputs.digest
        if (read.count, str(read)) != (chosen.count, str(chosen)):
            others = "" if read.count != chosen.count else " other ones"
            why = f"{chosen.count:,} records were chosen, and {read.count:,}{others} were read"
            raise NotReplayable(str(self.target), why)

    def inputs(self, pins: Mapping[str, Pin]) -> TargetInputs:
        return TargetInputs(pins, Corrections(self.aside, self.accounted, keep=True))

    def adapted(self, work: Work, pins: Pins) -> Work:
        return replace(
            work,
            stays=() if self.whole else files_there(pins, self.target),
            replay_of=self.standing.run,
            thresholds=work.thresholds if self.whole else ANYTHING,
        )


@dataclass(frozen=True, slots=True)
class ReplayTargetMaker(TargetMaker):
    """Makes the targets of a replay from the replayed records, and records how rejections were
    resolved."""

    items: Mapping[Target, TargetReplay]
    rejected: RejectedRecord

    def inputs(self, work: TargetWork) -> TargetInputs:
        item = self.items[work.assignment.target]
        return item.inputs(item.pins(self.bench.pins))

    def adapted(self, work: Work) -> Work:
        return self.items[work.target].adapted(work, self.bench.pins)

    def before_record(self, work: Work) -> None:
        item = self.items[work.target]
        item.check_read(work.folders.result)
        self._resolve(item, work.folders.result)

    def _resolve(self, item: TargetReplay, place: Path) -> None:
        letters, journal = self.rejected.letters, self.bench.journal
        run = journal.run
        first, name = item.standing, str(item.target)
        again = rejected_keys(place)

        def work(tx: Transaction) -> None:
            Replays(tx).mark(run.id, item.target, replays=first.result, adds_to=item.adds_to)
            found = letters.outcomes(name, again, all_open=item.whole)
            Resolutions(tx).add(
                first.run_id, item.target, found, actor=journal.actor, by_run=run.id
            )
            if item.whole:
                Resolutions(tx).carry_discards(first.run_id, item.target, to=run.id)

        journal.write(work)  # takes effect when the run is published
