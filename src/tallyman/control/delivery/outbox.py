"""The outbox: a project's waiting events, and the loop that delivers them in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tallyman.control.delivery.destination import Destination, disabled, find
from tallyman.domain.version.owner import Owner
from tallyman.errors import DestinationUnusable
from tallyman.registry.database import PATIENCE as DATABASE_PATIENCE
from tallyman.registry.database import Database
from tallyman.registry.spool import Spool, SpoolState


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an event was not taken."""

    reason: str
    refused: bool = False
    """The receiver will never accept this event as it is."""


TryOnce = Callable[[Mapping[str, Any]], Trouble | None]


@dataclass(frozen=True, slots=True)
class Outbox:
    """The spool of a project, and the folders in which its destination is configured."""

    database: Database
    owner: Owner
    folders: tuple[Path, ...]

    @classmethod
    def of(cls, database: Database, owner: Owner, home: Path) -> Outbox:
        folders = [home]
        with contextlib.suppress(OSError):
            folders.insert(0, Path.cwd())  # now: pipeline code may change it later
        return cls(database, owner, tuple(folders))

    def destination(self) -> Destination | None:
        return find(self.folders)

    def waiting(self, patience_s: float = DATABASE_PATIENCE) -> int:
        return self.database.durably(lambda tx: Spool(tx).waiting(self.owner), patience_s)

    def take_back(self) -> int:
        return self.database.durably(lambda tx: Spool(tx).take_back(self.owner))


@dataclass(slots=True)
class Tally:
    """Counts of one pass over the spool."""

    sent: int = 0
    refused: int = 0
    trouble: str | None = None
    """Why the pass stopped early."""


def drain(spool: Spool, owner: Owner, try_once: TryOnce, go_on: Callable[[Tally], bool]) -> Tally:
    """Deliver events in order until none is left, one is not taken, or `go_on` returns False."""
    tally = Tally()
    while go_on(tally):
        event = spool.next(owner)
        if event is None:
            break
        trouble = try_once(event.body)
        if trouble is None:
            spool.sent(event.id)
            tally.sent += 1
        elif trouble.refused:
            spool.refused(event.id, trouble.reason)
            tally.refused += 1
        else:
            spool.failed(event.id, trouble.reason)
            tally.trouble = trouble.reason
            break
    return tally


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageState:
    destination: str | None
    """None if nothing is configured, or if `problem` says why it cannot be used."""
    problem: str | None
    disabled: bool
    spool: SpoolState
    refusals: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        return {
            "destination": self.destination,
            "problem": self.problem,
            "disabled": self.disabled,
            **asdict(self.spool),
            "refusals": self.refusals,
        }


def state(outbox: Outbox) -> LineageState:
    problem: str | None = None
    destination: Destination | None = None
    try:
        destination = outbox.destination()
    except DestinationUnusable as error:
        problem = str(error)
    owner, database = outbox.owner, outbox.database
    return LineageState(
        destination=destination.shown if destination else None,
        problem=problem,
        disabled=disabled(),
        spool=database.durably(lambda tx: Spool(tx).state(owner)),
        refusals=database.durably(lambda tx: Spool(tx).refusals(owner)),
    )
