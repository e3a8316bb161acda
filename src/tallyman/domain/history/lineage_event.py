"""An OpenLineage event on its way: built once, kept until somebody took it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5


@dataclass(frozen=True, slots=True)
class LineageEvent:
    body: Mapping[str, Any]
    """The event as JSON, as OpenLineage has it."""

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
        """The same for the same event, however often it is built."""
        return uuid5(self.run, f"{self.type}|{self.body['eventTime']}")
