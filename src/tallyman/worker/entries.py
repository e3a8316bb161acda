"""What workers can do: for each kind of task, the function that does it in a child."""

from __future__ import annotations

from tallyman.domain.task.task import TARGET

ENTRIES = {TARGET: "tallyman.worker.target:work"}
"""Kind of task, and `module:function`."""
