"""Skip a target whose definition and inputs have not changed since its last success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from tallyman.control.bind.inputs import Pin
from tallyman.control.pipeline.definitions import Definitions
from tallyman.domain.history.materialization import Consumed, Materialization, dependency_hash
from tallyman.domain.pipeline.target import Target
from tallyman.registry.database import Transaction
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.fragments import Fragments


def consumed(pins: Mapping[str, Pin]) -> list[Consumed]:
    return [one for pin in pins.values() for one in pin.consumed()]


@dataclass(frozen=True, slots=True)
class Unchanged:
    definitions: Definitions
    ordinals: Mapping[UUID, int]
    """The version of each dataset that the run reads."""

    def result(
        self, target: Target, dataset: UUID, pins: Mapping[str, Pin]
    ) -> Materialization | None:
        """Return the last success if the definition and all input content are the same.

        An asset that reads the clock is never unchanged: the time differs in every run.
        """
        if self.definitions.asks_time(target.asset):
            return None
        last = self.definitions.last_success(target)
        if last is None or last.definition_hash != self.definitions.hash(target.asset):
            return None
        if not self._still_there(target, last, dataset):
            return None
        return last if dependency_hash(consumed(pins)) == last.dependency_hash else None

    def _still_there(self, target: Target, last: Materialization, dataset: UUID) -> bool:
        """True if the result's files exist and rows it appended were not removed since."""

        def work(tx: Transaction) -> bool:
            found = Fragments(tx).get([last.fragment_id] if last.fragment_id else [])
            there = self.definitions.workspace.warehouse.has
            if not any(f.dataset_id == dataset and there(f) for f in found.values()):
                return False
            if self.definitions.pipeline.assets[target.asset].update_strategy != "append":
                return True
            if not any(fragment.rows for fragment in found.values()) and last.completed_at:
                return not Commits(tx).gone_back_since(dataset, last.completed_at)
            pinned = self.ordinals.get(dataset, 0)
            return last.fragment_id in Fragments(tx).at(dataset, pinned)

        return self.definitions.database.durably(work)
