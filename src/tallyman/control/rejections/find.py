"""Find the rejections of a run: their files, which are open, and how the others were resolved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tallyman.control.rejections.chosen import Chosen
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.pipeline.target import Target
from tallyman.engine.readback.dead_letters import Letters
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.replays import ReplayLink, Replays, taken_back
from tallyman.registry.run.resolutions import Resolutions


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One target that rejected records. `run_id` is the run that made it, even if the run in
    question only reused it; `line` lists the replays of its rejections."""

    row: Materialization
    result: UUID
    run_id: UUID
    run: str
    place: Path
    line: tuple[ReplayLink, ...]
    taken_back: tuple[UUID, ...]

    @property
    def target(self) -> Target:
        return self.row.target

    @property
    def root(self) -> ReplayLink:
        return self.line[0]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """The open rejections of a run, and the standing of their targets by name."""

    letters: Letters
    standings: dict[str, Standing]

    @property
    def taken_back(self) -> list[UUID]:
        return sorted({run for one in self.standings.values() for run in one.taken_back})


@contextmanager
def rejected(database: Database, chosen: Chosen) -> Iterator[RejectedRecord]:
    """Open the rejections of a run. For a run that the registry does not know, all of them are
    open."""
    run, record = chosen.run, chosen.record
    places = run.places(chosen.asset)
    for place in places.values():
        run.vouched.check(place, "errors")
    found: dict[str, Standing] = {}
    if record is not None:
        rows = database.durably(lambda tx: Materializations(tx).of_run(record.id))
        for row in rows:
            if row.target in places:
                found[str(row.target)] = _standing(database, record, row, places[row.target])
    with Letters({str(target): place for target, place in places.items()}) as letters:
        for name, one in found.items():
            _mark_resolved(database, letters, name, one)
        yield RejectedRecord(letters, found)


def _standing(database: Database, record: RunRecord, row: Materialization, place: Path) -> Standing:
    result = row.reused_id or row.id
    line = database.durably(lambda tx: Replays(tx).line(result))
    link = next((link for link in line if link.id == result), None)
    return Standing(
        row=row,
        result=result,
        run_id=link.run_id if link else record.id,
        run=link.run if link else record.name,
        place=place,
        line=tuple(line),
        taken_back=tuple(taken_back(line)),
    )


def _mark_resolved(database: Database, letters: Letters, name: str, one: Standing) -> None:
    def work(tx: Transaction) -> None:
        letters.forget(name)
        for batch in Resolutions(tx).of_target(one.run_id, one.target, one.taken_back):
            letters.resolve(name, batch)

    database.durably(work)
