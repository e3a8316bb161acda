"""Closing the account: the partitions of the ledger, from what the segments wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyman.domain.fate import Fate
from tallyman.domain.ledger import KeyDigest, Partition, SubLedger
from tallyman.engine import digest, settle
from tallyman.engine.columns import ERROR, KEY, LIVE
from tallyman.engine.cuts import Opened
from tallyman.engine.evaluate import Evaluation
from tallyman.engine.stage import Stage

Totals = dict[int, dict[int, KeyDigest]]
"""By the identity of a stage: count and digest of each part it wrote."""

KIND = {Fate.AGGREGATED: "reverse_joins", Fate.EXPLODED: "parent_child"}


def rejected_by_groups(evaluation: Evaluation, totals: Totals) -> dict[int, KeyDigest]:
    """By the level of groups that failed: the records behind them, not AGGREGATED but ERROR."""
    found: dict[int, KeyDigest] = {}
    for stage in evaluation.staged:
        if not stage.level or ERROR not in totals.get(id(stage), {}):
            continue
        opened = evaluation.opened[stage.level - 1]
        if opened.unit == "group":
            rows = settle.failed_sources(opened, settle.failed_rows(stage)).select(KEY)
            before = found.get(stage.level, KeyDigest())
            found[stage.level] = before + digest.of_keys(rows)
    return found


@dataclass(frozen=True, slots=True)
class Account:
    """Level 0 are the records; each cut that makes new rows opens the next level."""

    evaluation: Evaluation
    totals: Totals
    rejected: Mapping[int, KeyDigest]
    folder: Path

    def close(
        self, passed: Mapping[int, KeyDigest]
    ) -> tuple[tuple[Partition, ...], tuple[SubLedger, ...]]:
        """The partitions of the records, and a sub-ledger for every level above them. `passed` are
        the rows of the output, by their level."""
        opened = self.evaluation.opened
        levels = [self._partitions(level) for level in range(len(opened) + 1)]
        for level, met in passed.items():
            key = self.evaluation.output_key
            place = _partition(Fate.PASSED, "Rows of the output", met, "output/", key)
            levels[level].append(place)
        subs = tuple(
            SubLedger(
                opened_by=cut.morphism_id,
                unit=cut.unit,
                units_in=self._units(cut, levels[level]),
                partitions=tuple(levels[level]),
            )
            for level, cut in enumerate(opened, 1)
        )
        return tuple(levels[0]), subs

    def _partitions(self, level: int) -> list[Partition]:
        stages = [s for s in self.evaluation.staged if s.level == level]
        errors = self._met(stages, ERROR)
        found: list[Partition] = []
        for made, cut in enumerate(self.evaluation.opened, 1):
            if cut.consumes and cut.stage.level == level:
                moved = self.rejected.get(made, KeyDigest())
                found.append(self._opened(cut, moved))
                errors += moved
        for number, part in self.evaluation.book.parts.items():
            if part.fate is Fate.FILTERED and part.level == level:
                place = f"adjoint/filtered_keys/{part.morphism_id}.parquet"
                met = self._met(stages, number)
                found.append(_partition(Fate.FILTERED, part.description, met, place))
        if errors.count or (self.evaluation.book.rules and level == 0):
            (self.folder / "errors").mkdir(exist_ok=True)
            found.append(_partition(Fate.ERROR, "Records that failed a rule", errors, "errors/"))
        return found

    def _met(self, stages: Sequence[Stage], part: int) -> KeyDigest:
        return sum((self.totals[id(s)].get(part, KeyDigest()) for s in stages), KeyDigest())

    def _opened(self, cut: Opened, moved: KeyDigest) -> Partition:
        live = self.totals[id(cut.stage)].get(LIVE, KeyDigest())
        place = f"adjoint/{KIND[cut.fate]}/{cut.morphism_id}.parquet"
        return _partition(cut.fate, cut.description, live - moved, place)

    def _units(self, cut: Opened, partitions: Sequence[Partition]) -> int:
        """How many rows the cut made, from the evidence it left."""
        if not cut.consumes:
            return sum(met.count for met in self.totals[id(cut.stage)].values())
        if cut.unit == "group" and cut.groups is None:
            return sum(p.digest.count for p in partitions)
        place = self.folder / "adjoint" / KIND[cut.fate] / f"{cut.morphism_id}.parquet"
        return settle.rows_in(place)


def _partition(
    fate: Fate, description: str, met: KeyDigest, location: str, key: tuple[str, ...] = ()
) -> Partition:
    return Partition(
        fate=fate, description=description, digest=met, location=location, key_columns=key
    )
