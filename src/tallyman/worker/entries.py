"""The function that does a task in a child, for each kind of task that workers can do."""

from __future__ import annotations

from tallyman.domain.task.task import TARGET

ENTRIES = {TARGET: "tallyman.worker.target:work"}
"""Kind of task, and `module:function`."""
