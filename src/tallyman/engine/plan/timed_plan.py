"""A plan with the run's time in it, evaluated in place of the written plan."""

from __future__ import annotations

from datetime import datetime

from tallyman.domain.definition import expressions
from tallyman.domain.definition.frame import Frame
from tallyman.engine.expressions.clock import Timed, reads_clock


def at(plan: Frame, moment: datetime) -> Frame:
    """Return the plan as a run at this moment evaluates it; unchanged if nothing reads the
    clock.
    """
    return expressions.rewritten(plan, lambda e: _timed(e, moment)) if asks_time(plan) else plan


def asks_time(plan: Frame) -> bool:
    """True if the result depends on the time. A column named `current_date` counts too, because the
    columns are known only when Spark has read the schemas.
    """
    return any(reads_clock(each) for each in expressions.of_plan(plan))


def _timed(expression: str, moment: datetime) -> str:
    return Timed.of(expression, moment) if reads_clock(expression) else expression
