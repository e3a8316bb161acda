"""Cron expressions in a time zone: the next tick, and the last one before now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tallyman.errors import UsageError
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    import cronsim
else:
    # Most commands that publish have no schedule.
    cronsim = OnDemand("cronsim")

SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields and the name of a time zone."""

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if len(self.expression.split()) != 5:
            raise UsageError(f"schedule: expected five fields, not {self.expression!r}")
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            raise UsageError(f"schedule: there is no time zone {self.timezone!r}") from None
        try:
            self.next(SOME_DAY)
        except cronsim.CronSimError as error:
            raise UsageError(f"schedule: {self.expression!r}: {error}") from None

    def next(self, now: datetime) -> datetime:
        """Return the first tick after `now`."""
        return self._tick(now, reverse=False)

    def latest(self, now: datetime) -> datetime:
        """Return the last tick at or before `now`."""
        return self._tick(now + timedelta(seconds=1), reverse=True)

    def _tick(self, now: datetime, *, reverse: bool) -> datetime:
        local = now.astimezone(ZoneInfo(self.timezone))
        try:
            return next(cronsim.CronSim(self.expression, local, reverse=reverse)).astimezone(UTC)
        except StopIteration:
            raise UsageError(f"schedule: {self.expression!r} is never due") from None
