"""Find the step of a plan that an error of Spark is about."""

from __future__ import annotations

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import step_ids
from tallyman.engine.spark.failure import SparkFailure


def failed_step(plan: Frame, failure: SparkFailure) -> str | None:
    """Return the id of the only step whose expressions contain what the error names; if it names
    nothing, of the only step that has expressions."""
    words = [word for word in (failure.fragment, failure.function) if word] or [""]
    found = [
        name
        for frame, name in step_ids(plan).items()
        if frame.step is not None
        and any(word in one for one in frame.step.expressions() for word in words)
    ]
    return found[0] if len(found) == 1 else None
