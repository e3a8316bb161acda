"""An OpenLineage event: built once, and kept until the receiver has taken it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5


@dataclass(frozen=True, slots=True)
class LineageEvent:
    body: Mapping[str, Any]
    """The event as OpenLineage's JSON."""

    @property
    def type(self) -> str:
        return str(self.body["eventType"])

    @property
    def job(self) -> str:
        return str(self.body["job"]["name"])

    @property
    def run(self) -> UUID:
        return UUID(self.body["run"]["runId"])

    @property
    def key(self) -> UUID:
        """Derive an id that is the same each time the same event is built."""
        return uuid5(self.run, f"{self.type}|{self.body['eventTime']}")
