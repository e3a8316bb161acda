"""Doors: counts, key digests and hashes of an asset's inputs, measured before any step."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.domain.account.ledger import InputAccount
from tallyman.engine.source import repeated
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.repeated import Repeated
from tallyman.engine.source.source import Input


@dataclass
class Doors:
    """Measurements that run in `pool` while the plan is evaluated. `accounted` names an input once
    for each time its records have to be accounted for.
    """

    inputs: Mapping[str, Input]
    accounted: Sequence[str]
    pool: ThreadPoolExecutor
    project: Path
    repeated: Repeated = field(default_factory=Repeated)
    _measured: dict[str, Future[Door]] = field(default_factory=dict)
    _hashes: dict[str, Future[str]] = field(default_factory=dict)

    def begin(self) -> None:
        """Start hashing every input and measuring the accounted ones. Read records with their
        places where keys do not distinguish them, so that evidence names each record.
        """
        for name, source in self.inputs.items():
            self._hashes[name] = self.pool.submit(attrgetter("content_hash"), source.files)
        for name in set(self.accounted):
            self._measured[name] = self.pool.submit(self.inputs[name].door)
        self.repeated = repeated.count({name: self.inputs[name] for name in self.accounted})
        placed = {
            name: self.inputs[name].with_places(name)
            for name in dict.fromkeys(self.accounted)
            if self.repeated.placed(name)
        }
        for name, source in placed.items():
            if type(source) is not type(self.inputs[name]):  # measure as the records are read
                self._measured[name] = self.pool.submit(source.door)
        self.inputs = {**self.inputs, **placed}

    def spark(self) -> SparkSession:
        return next(iter(self.inputs.values())).spark

    @property
    def accounted_inputs(self) -> list[Input]:
        return [self.inputs[name] for name in self.accounted]

    @property
    def records_in(self) -> int:
        return sum(map(self.records_of, self.accounted))

    def records_of(self, name: str) -> int:
        return self._measured[name].result().digest.count

    @property
    def every_key_counted(self) -> bool:
        """True if the number of repeated keys is known for every input."""
        return None not in self.repeated.counts.values()

    def accounts(self) -> tuple[InputAccount, ...]:
        return tuple(map(self._account, self.accounted))

    def accounts_so_far(self) -> tuple[InputAccount, ...]:
        """Return the accounts of inputs that were measured before the asset stopped."""
        there = [n for n in self.accounted if n in self._measured and _succeeded(self._measured[n])]
        return tuple(map(self._account, there))

    def careful(self) -> dict[str, Input] | None:
        """Return the inputs with their slower way of reading; None if no input has one."""
        slower = {name: found for name, one in self.inputs.items() if (found := one.slower())}
        return {**self.inputs, **slower} if slower else None

    def check_unchanged(self) -> None:
        for source in self.inputs.values():
            source.files.check_unchanged()

    def remember(self, rejecting: Collection[str] | None) -> None:
        """Remember what was measured, for the next run that reads the same bytes. Call it when the
        files are known to be unchanged. `rejecting` are the inputs with records that do not fit;
        None if not every record was typed and accounted for.
        """
        for name in dict.fromkeys(self.accounted):
            source, door = self.inputs[name], self._measured[name].result()
            if rejecting is not None:
                door = replace(door, typing=None if name in rejecting else source.typing)
            source.remember(replace(door, repeated=self.repeated.counts.get(name)))

    def forget(self) -> None:
        """Forget the inputs that were read as fitting: one of them did not fit after all."""
        for source in self.inputs.values():
            if source.fits:
                source.forget()

    def _account(self, name: str) -> InputAccount:
        source, door = self.inputs[name], self._measured[name].result()
        return InputAccount(
            dataset=os.path.relpath(source.files.root, self.project),
            key_field=",".join(source.key) or "@file#ordinal",
            content_hash=self._hashes[name].result(),
            digest=door.digest,
            null_keys=door.null_keys,
            duplicate_keys=self.repeated.counts.get(name),
            named_by_place=source.places is not None,
            blank_lines=door.blank_lines,
            missing_columns=source.missing_columns,
            name=name,
            columns=door.columns,
        )


def _succeeded(measured: Future[Door]) -> bool:
    return measured.done() and not measured.cancelled() and measured.exception() is None
