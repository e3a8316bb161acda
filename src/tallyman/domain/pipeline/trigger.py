"""Triggers: what makes tasks of an asset, and how those tasks are tried."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

from tallyman.domain.pipeline import arguments
from tallyman.domain.pipeline.cron import check_cron
from tallyman.domain.task.retry import RetryPolicy, seconds
from tallyman.errors import UsageError

if TYPE_CHECKING:
    from tallyman.domain.pipeline.partition import Partitioning

MANUAL = "manual"
"""Only runs that people start make the asset."""
EVENT = "event"
"""New content of an input makes a task."""
POOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
MOST_PRIORITY = 100
MOST_CONCURRENCY = 10_000
LONGEST_ZONE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A trigger that ticks: a cron expression of five fields, in a time zone."""

    cron: str
    timezone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.cron} {self.timezone}"


Trigger: TypeAlias = "str | Schedule"


def schedule(cron: str, timezone: str = "UTC") -> Schedule:
    """Declare a trigger that ticks: `schedule("0 2 * * *", timezone="Europe/Amsterdam")`."""
    written = " ".join(arguments.text("schedule: cron", cron).split())
    check_cron(written)
    zone = arguments.text("schedule: timezone", timezone)
    try:
        known = len(zone) <= LONGEST_ZONE and ZoneInfo(zone).key == zone
    except (LookupError, ValueError, OSError):
        known = False
    if not known:
        raise UsageError(
            f"schedule: there is no time zone {arguments.shown(zone)}; "
            "give a name such as 'UTC' or 'Europe/Amsterdam'"
        )
    return Schedule(cron=written, timezone=zone)


# ---- arguments of an asset ------------------------------------------------------------------


def checked_trigger(asset: str, trigger: object, partitioned_by: Partitioning | None) -> Trigger:
    if isinstance(trigger, Schedule):
        if partitioned_by is not None:
            raise UsageError(
                f"asset {asset}: a schedule does not say which partition of "
                f"{partitioned_by.column!r} to make; use trigger='event', or `tallyman backfill`"
            )
        return trigger
    if trigger in (MANUAL, EVENT):
        return str(trigger)
    raise UsageError(
        f"asset {asset}: trigger is 'manual', 'event' or tm.schedule(…), "
        f"not {arguments.shown(trigger)}"
    )


def checked_retry(asset: str, retry: object, timeout: str | None) -> RetryPolicy | None:
    """Return the policy; `timeout` alone is the time limit of the default policy."""
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise UsageError(f"asset {asset}: retry is tm.retry(…), not {arguments.shown(retry)}")
    if timeout is None:
        return retry
    policy = RetryPolicy() if retry is None else retry
    limit = seconds(f"asset {asset}: timeout", timeout)
    if policy.timeout_s not in (RetryPolicy().timeout_s, limit):
        raise UsageError(f"asset {asset}: timeout is given twice: in retry, and as timeout")
    return replace(policy, timeout_s=limit)


def checked_pool(asset: str, pool: object) -> str:
    if not POOL_NAME.fullmatch(arguments.text(f"asset {asset}: pool", pool)):
        raise UsageError(
            f"asset {asset}: pool {arguments.shown(pool)}: use lower-case letters, digits and '_', "
            "a letter first, at most 64"
        )
    return str(pool)


def checked_priority(asset: str, priority: object) -> int:
    """Return the priority; higher is earlier."""
    return _whole(f"asset {asset}: priority", priority, -MOST_PRIORITY, MOST_PRIORITY)


def checked_concurrency(asset: str, most: object) -> int | None:
    if most is None:
        return None
    return _whole(f"asset {asset}: max_concurrency", most, 1, MOST_CONCURRENCY)


def _whole(what: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        shown = arguments.shown(value)
        raise UsageError(f"{what} is a whole number from {least:,} to {most:,}, not {shown}")
    return value
