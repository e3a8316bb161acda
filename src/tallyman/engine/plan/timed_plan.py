"""A plan with the run's time in it: what is evaluated, in place of what was written."""

from __future__ import annotations

from datetime import datetime

from tallyman.domain.definition import expressions
from tallyman.domain.definition.frame import Frame
from tallyman.engine.expressions.clock import Timed, reads_clock
from tallyman.engine.expressions.column_sql import sql_of
from tallyman.engine.expressions.columns import text_of


def at(plan: Frame, moment: datetime) -> Frame:
    """The plan as a run at this moment evaluates it; itself when nothing in it reads the clock."""
    return expressions.rewritten(plan, lambda e: _timed(e, moment)) if asks_time(plan) else plan


def asks_time(plan: Frame) -> bool:
    """True if the result depends on when it is made. A column called `current_date` counts too:
    which columns there are is known only when Spark has read the schemas."""
    return any(reads_clock(text_of(each)) for each in expressions.of_plan(plan))


def _timed(expression: object, moment: datetime) -> object:
    text = text_of(expression)
    if not reads_clock(text):
        return expression
    # The check has shown that the text means the same as the Column, or refused the Column.
    sql = text if isinstance(expression, str) else sql_of(text)
    return Timed.of(expression, text, sql, moment)
