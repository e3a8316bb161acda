"""Partitions of the tasks of an asset: which one an event asks for, if any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.domain.pipeline.partition import Partitioning, daily, partitions
from tallyman.domain.task.event import WHOLE, Scope
from tallyman.domain.task.task import TARGET, TaskTemplate
from tallyman.errors import UsageError

PARTITIONED_BY = "partitioned_by"
"""The key in the configuration of a task."""


def partition_config(declared: Partitioning | None) -> dict[str, Any]:
    """Write the partitions of an asset into the configuration of its tasks."""
    if declared is None:
        return {}
    days = {n: d.isoformat() for n in ("start", "end") if (d := getattr(declared, n)) is not None}
    found = {"column": declared.column, **days}
    return {PARTITIONED_BY: found if days else found | {"values": list(declared.values)}}


def partitioning_of(config: Mapping[str, Any]) -> Partitioning | None:
    """Read the partitions of an asset from the configuration of its tasks."""
    found = config.get(PARTITIONED_BY)
    if found is None:
        return None
    return partitions(**found) if "values" in found else daily(**found)


def task_scope(template: TaskTemplate, event: Scope) -> Scope | None:
    """Return the scope of the task that an event makes; None if it makes none. All of an asset is
    made, or the partition that has new content. Another kind of task gets the event's scope."""
    if template.kind != TARGET:
        return event
    declared = partitioning_of(template.config)
    if declared is None:
        return WHOLE
    if event.partition_key is None or event.start is not None:
        return None
    try:
        return Scope(partition_key=declared.parse(event.partition_key))
    except UsageError:
        return None  # a day or value that the asset does not have
