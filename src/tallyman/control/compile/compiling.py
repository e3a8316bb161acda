"""Compile declarations in this process: build the plan of each asset, and write all of it as data.

User code runs here. A project calls this in a child process; only the test kit, which is in the
user's own process already, calls it directly.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallyman.control.compile.handover import CompiledItem, Handover
from tallyman.control.compile.load import collected
from tallyman.domain.compiled import form
from tallyman.domain.compiled.compiled_plan import CompiledPlan
from tallyman.domain.compiled.kinds import Misshapen
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import numbers
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.pipeline import Asset, Item, Pipeline
from tallyman.engine.expressions.column_text import PYTHON_FUNCTION, column_text
from tallyman.engine.expressions.literal_text import NoText
from tallyman.engine.expressions.outside import reaches_outside
from tallyman.engine.spark.mode import SparkMode
from tallyman.errors import Problem, TallymanError, UsageError
from tallyman.errors.wording import described

_UDF = re.compile(r"pyspark/sql/(?:connect/)?(?:udf|pandas/functions)\.py$")


def compile_folder(folder: Path) -> Handover:
    """Import the pipeline files of a folder, and compile what they declare."""
    with columns_as_data():
        declared, problems = collected(folder)
        return compile_declared(declared, problems)


def compile_declared(declared: Declarations, problems: list[Problem]) -> Handover:
    """Compile declarations, each by itself: a mistake in one does not hide the others."""
    found = [_compiled(item) for item in declared]
    return Handover(tuple(found), tuple(problems), dict(declared.places))


def compiled_pipeline(pipeline: Pipeline) -> Pipeline:
    """Compile a pipeline that this process has made; its mistakes show when it is checked."""
    declared = Declarations()
    declared += form.items_of(pipeline)
    with columns_as_data():
        return compile_declared(declared, []).pipeline()


@contextmanager
def columns_as_data() -> Iterator[None]:
    """Let PySpark make Columns as Spark Connect does: as data, without a session."""
    mode = SparkMode("sc://")
    mode.enter()
    try:
        yield
    finally:
        mode.leave()


def _compiled(item: Item) -> CompiledItem:
    problem: Problem | None = None
    try:
        plan = _plan(item) if isinstance(item, Asset) else None
        section, value = form.write_item(item, plan, _sql_of)
        return CompiledItem(section, item.name, value, code=_code(item))
    except Misshapen as error:
        problem = Problem(error.where, error.message, error.nearest)
    except TallymanError as error:
        problem = Problem(f"asset {item.name}", str(error))
    section, value = form.write_item(item, None, _sql_of)
    return CompiledItem(section, item.name, value, (problem,))


def _plan(asset: Asset) -> Frame:
    try:
        plan = asset.written_plan()
    except TallymanError:
        raise
    except Exception as error:  # the author's code: any error in it is a mistake
        line = _line_of_udf(error)
        said = described(error) if line is None else f"line {line}: {PYTHON_FUNCTION}"
        raise UsageError(said) from error
    if not isinstance(plan, Frame):
        raise UsageError(f"the function must return a Frame, not {type(plan).__name__}")
    numbers(plan)
    return plan


def _sql_of(given: object, where: str, *, named: bool) -> str:
    """Write an expression of a plan as SQL text; refuse what has none, and what no plan may
    contain."""
    try:
        text = given if isinstance(given, str) else column_text(given, named=named)
    except NoText as error:
        raise Misshapen(where, str(error)) from None
    for reason in reaches_outside(text):
        raise Misshapen(where, f"{text!r} {reason}")
    return text


def _code(item: Item) -> str | None:
    """Return the text of an asset's function, if it is one."""
    if not isinstance(item, Asset):
        return None
    function = item.written.function
    if isinstance(function, CompiledPlan):
        return function.code
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return None


def _line_of_udf(error: Exception) -> int | None:
    """Return the line that asked PySpark for a function in Python, which takes a session; None if
    the error has another cause."""
    lines = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(error.__traceback__)]
    if not any(_UDF.search(file) for file, _ in lines):
        return None
    return [line for file, line in lines if "/pyspark/" not in file][-1]
