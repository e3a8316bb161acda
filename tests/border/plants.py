"""Bugs at the border between assets: another fragment, version or file than was published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import functions as F

from tallyman.control.bind.inputs import Pins, Published
from tallyman.control.bind.pinned_files import Pin, PinnedFiles
from tallyman.control.publish import rollback
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.history.materialization import Made
from tallyman.domain.pipeline.target import Reading
from tallyman.domain.version.commit import Change
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.expressions.column_names import KEY
from tallyman.engine.source import corrections
from tallyman.engine.source.corrections import CorrectionsInput, Overlay
from tallyman.engine.source.parquet_input import ParquetInput
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.version.fragments import Fragments
from tests.border.project import ONE, TWO

Fragmented = Callable[[list[Fragment]], list[Fragment]]
Bug = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Plant:
    """A bug, and the asset that meets it; `also` are made with it in one run."""

    name: str
    asset: str
    plant: Bug
    also: tuple[str, ...] = ()
    partition: str | None = None


# ---- the fragments that are read --------------------------------------------------------------


def reading(name: str, change: Fragmented) -> Bug:
    """Read other fragments of an input than those that were found."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        found = Pins.fragments

        def fragments(pins: Pins, reading: Reading) -> list[Fragment]:
            listed = found(pins, reading)
            return change(listed) if reading.name == name else listed

        patch.setattr(Pins, "fragments", fragments)

    return plant


def first_left_out(listed: list[Fragment]) -> list[Fragment]:
    return listed[1:]


def last_left_out(listed: list[Fragment]) -> list[Fragment]:
    return listed[:-1]


def last_of_each_partition(listed: list[Fragment]) -> list[Fragment]:
    """The bug that was: files named by partition."""
    return list({fragment.partition: fragment for fragment in listed}.values())


def one_twice_and_one_not(listed: list[Fragment]) -> list[Fragment]:
    return [listed[0], *listed[:-1]]


def earlier(patch: pytest.MonkeyPatch) -> None:
    """The version before the one that was pinned."""
    at = Fragments.at

    def before(self: Fragments, dataset: UUID, ordinal: int) -> dict[UUID, Fragment]:
        return at(self, dataset, max(ordinal - 1, 1))

    patch.setattr(Fragments, "at", before)


def with_what_left(patch: pytest.MonkeyPatch) -> None:
    """The version, and what was replaced or rolled back since the one before it."""
    at = Fragments.at

    def both(self: Fragments, dataset: UUID, ordinal: int) -> dict[UUID, Fragment]:
        return at(self, dataset, ordinal - 1) | at(self, dataset, ordinal)

    patch.setattr(Fragments, "at", both)


def neighbour(patch: pytest.MonkeyPatch) -> None:
    """Another partition than the one that is asked for."""

    def read_by(published: Published, partition: str | None) -> Sequence[Fragment]:
        others = [f for f in published.all if f.partition != partition]
        return published.all if partition is None else [replace(others[0], partition=partition)]

    patch.setattr(Published, "read_by", read_by)


def every_partition(patch: pytest.MonkeyPatch) -> None:
    def read_by(published: Published, partition: str | None) -> Sequence[Fragment]:
        return [replace(fragment, partition=partition) for fragment in published.all]

    patch.setattr(Published, "read_by", read_by)


def own_left_out(patch: pytest.MonkeyPatch) -> None:
    """What the run has just made is not read."""
    patch.setattr(Pins, "_merged", lambda pins, tx, published, reading: list(published))


def own_and_replaced(patch: pytest.MonkeyPatch) -> None:
    """What the run has just made is read together with what it replaces."""
    merged = Pins._merged

    def both(pins: Pins, tx: Any, published: Sequence[Fragment], reading: Reading) -> Any:
        return list({f.id: f for f in [*published, *merged(pins, tx, published, reading)]}.values())

    patch.setattr(Pins, "_merged", both)


def additions_left_out(patch: pytest.MonkeyPatch) -> None:
    """A result is reused without the rows that a replay added to it."""
    patch.setattr(Fragments, "reused", lambda fragments, results, ordinals: {})


# ---- the files that are read ------------------------------------------------------------------


def files(name: str, change: Callable[[list[Any]], list[Any]]) -> Bug:
    def plant(patch: pytest.MonkeyPatch) -> None:
        pinned = PinnedFiles.dataset

        def dataset(self: PinnedFiles, reading: Reading, given: Any) -> Pin:
            pin = pinned(self, reading, given)
            if reading.name != name:
                return pin
            return replace(pin, files=replace(pin.files, files=tuple(change([*pin.files.files]))))

        patch.setattr(PinnedFiles, "dataset", dataset)

    return plant


def one_file_twice(listed: list[Any]) -> list[Any]:
    return [*listed, replace(listed[0], name=f"more/{listed[0].name}")]


def unread_file(patch: pytest.MonkeyPatch) -> None:
    """All files are opened, and one of them is not read."""
    read = ParquetInput._read

    def reading(self: ParquetInput, group: Any) -> Any:
        fewer = group.files[:-1] if self.own and len(group.files) > 1 else group.files
        return read(self, replace(group, files=fewer))

    patch.setattr(ParquetInput, "_read", reading)


# ---- corrected records ------------------------------------------------------------------------


def applied_twice(patch: pytest.MonkeyPatch) -> None:
    lots = Overlay.lots

    def twice(self: Overlay, columns: Sequence[str]) -> list[Any]:
        return [*lots(self, columns), lots(self, columns)[-1]]

    patch.setattr(Overlay, "lots", twice)


def applied_to_another(patch: pytest.MonkeyPatch) -> None:
    """The correction is given to the record next to the one that it names."""
    records = CorrectionsInput.records

    def moved(self: CorrectionsInput, columns: Sequence[str] | None = None) -> Any:
        return records(self, columns).withColumn(KEY, F.lit("a"))

    patch.setattr(CorrectionsInput, "records", moved)
    patch.setattr(Overlay, "_chosen", lambda self, rows: rows)


def applied_to_all(patch: pytest.MonkeyPatch) -> None:
    """Records that nobody chose are evaluated again, and their rows added again."""
    overlay = corrections._overlay

    def all_of_it(base: Any, *given: Any) -> Any:
        return replace(overlay(base, *given), base=base, only=None)

    patch.setattr(corrections, "_overlay", all_of_it)


# ---- what becomes a version -------------------------------------------------------------------


def joined_without_one(patch: pytest.MonkeyPatch) -> None:
    join = Fragments.join
    patch.setattr(
        Fragments, "join", lambda self, dataset, ids, at: join(self, dataset, [*ids][1:], at)
    )


def one_does_not_leave(patch: pytest.MonkeyPatch) -> None:
    leave = Fragments.leave
    patch.setattr(
        Fragments, "leave", lambda self, dataset, ids, at: leave(self, dataset, [*ids][1:], at)
    )


def replaces_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    def removed(change: Change, live: Mapping[UUID, Fragment]) -> set[UUID]:
        return {f.id for f in live.values() if f.partition not in change.scopes}

    patch.setattr(Change, "removed", removed)


def restores_another(patch: pytest.MonkeyPatch) -> None:
    back = rollback._back

    def other(tx: Any, dataset: Any, ordinal: int | None) -> Change | None:
        change = back(tx, dataset, ordinal)
        if change is None or ordinal is None:
            return change
        newest = Fragments(tx).at(dataset.id, dataset.ordinal - 1).values()
        return replace(change, adds=tuple(newest))

    patch.setattr(rollback, "_back", other)


# ---- what is recorded -------------------------------------------------------------------------


def recorded(change: Callable[[Made], Made]) -> Bug:
    def plant(patch: pytest.MonkeyPatch) -> None:
        succeed = Materializations.succeed

        def recording(self: Any, run: UUID, target: Any, made: Made, status: Any) -> UUID:
            return succeed(self, run, target, change(made), status)

        patch.setattr(Materializations, "succeed", recording)

    return plant


def one_not_recorded(made: Made) -> Made:
    return replace(made, consumed=made.consumed[:-1])


def other_recorded(made: Made) -> Made:
    """The first fragment stands for all of them."""
    first = made.consumed[0]
    return replace(made, consumed=tuple(replace(c, fragment=first.fragment) for c in made.consumed))


def another_result_recorded(made: Made) -> Made:
    """Each fragment is named as a source is: by nothing."""
    return replace(made, consumed=tuple(replace(c, fragment=None) for c in made.consumed))


def ledger_states(
    change: Callable[[InputVersion], InputVersion],
) -> Bug:
    def plant(patch: pytest.MonkeyPatch) -> None:
        to_json = InputVersion.to_json
        patch.setattr(InputVersion, "to_json", lambda version: to_json(change(version)))

    return plant


READ = (
    Plant("whole_first_left_out", "per_day", reading("good", first_left_out)),
    Plant("whole_last_left_out", "per_day", reading("good", last_left_out)),
    Plant("whole_last_of_each_partition", "per_day", reading("good", last_of_each_partition)),
    Plant("whole_one_twice_and_one_not", "per_day", reading("good", one_twice_and_one_not)),
    Plant("whole_of_another_version", "per_day", earlier),
    Plant("whole_with_what_left", "per_day", with_what_left),
    Plant("whole_without_own", "per_day", own_left_out, ("good",), TWO),
    Plant("whole_with_replaced", "per_day", own_and_replaced, ("good",), TWO),
    Plant("whole_without_additions", "per_day", additions_left_out, ("good",), ONE),
    Plant("whole_one_file_twice", "per_day", files("good", one_file_twice)),
    Plant("whole_one_file_not", "per_day", files("good", lambda listed: listed[:-1])),
    Plant("whole_one_file_unread", "per_day", unread_file),
    Plant("partition_first_left_out", "by_day", reading("good", first_left_out), partition=ONE),
    Plant("partition_of_the_neighbour", "by_day", neighbour, partition=ONE),
    Plant("partition_and_its_neighbour", "by_day", every_partition, partition=ONE),
    Plant("partition_of_another_version", "by_day", earlier, partition=TWO),
    Plant("table_first_left_out", "labelled", reading("kinds", first_left_out)),
    Plant("table_of_another_version", "labelled", earlier),
    Plant("accounted_table_left_out", "looked_up", reading("kinds", last_left_out)),
    Plant("reference_left_out", "looked_up", reading("good", first_left_out)),
    Plant("reference_one_file_twice", "looked_up", files("good", one_file_twice)),
    Plant("shared_first_left_out", "board", reading("good", first_left_out)),
    Plant("shared_of_another_version", "board", earlier),
    Plant("shared_one_file_not", "board", files("good", lambda listed: listed[1:])),
)

REPLAYED = (
    Plant("correction_applied_twice", "good", applied_twice),
    Plant("correction_of_another_record", "good", applied_to_another),
    Plant("other_records_replayed", "good", applied_to_all),
)
PUBLISHED = (
    Plant("joined_without_one", "good", joined_without_one, partition=ONE),
    Plant("one_does_not_leave", "good", one_does_not_leave, partition=ONE),
    Plant("replaces_the_neighbour", "good", replaces_the_neighbour, partition=ONE),
)
RECORDED = (
    Plant("one_not_recorded", "per_day", recorded(one_not_recorded)),
    Plant("other_recorded", "per_day", recorded(other_recorded)),
    Plant("nothing_recorded", "per_day", recorded(another_result_recorded)),
    Plant(
        "ledger_of_fewer_rows",
        "per_day",
        ledger_states(lambda version: replace(version, rows=version.rows - 1)),
    ),
    Plant(
        "ledger_of_fewer_fragments",
        "per_day",
        ledger_states(lambda version: replace(version, fragments=version.fragments[1:])),
    ),
)
