"""Find every mistake in a project's definitions, without a run and without the database."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tallyman.control.pipeline.load import collected
from tallyman.control.pipeline.outputs import output_problems
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import numbers
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.domain.pipeline.selection import select
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.errors import DefinitionError, NotFound, Problem, TallymanError, UsageError
from tallyman.errors.wording import described
from tallyman.on_demand import OnDemand
from tallyman.settings import FILE

if TYPE_CHECKING:
    from tallyman.control.pipeline import check, redaction
else:
    check = OnDemand("tallyman.control.pipeline.check")
    redaction = OnDemand("tallyman.control.pipeline.redaction")

HAS_MISTAKES = "it has mistakes"
NO_SPARK = "its columns can only be built with Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionCheck:
    """The mistakes of a project's definitions, with file and line where they are known."""

    problems: tuple[Problem, ...]
    checked: tuple[str, ...] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)
    """Assets and sources that could not be checked, and why."""
    with_spark: bool = False
    """True if columns and types were analyzed too."""


def find_mistakes(
    workspace: Workspace, terms: Sequence[str], *, with_spark: bool = True
) -> DefinitionCheck:
    """Check settings, files, tables and the selected assets with everything they read."""
    home = workspace.home
    declared, problems = collected(home / workspace.settings.pipelines)
    pipeline, wrong, left_out = _wired(declared, unread=bool(problems))
    problems += _threshold_problems(workspace) + wrong
    chosen = _selected(pipeline, terms, left_out, bool(problems))
    analyzed = bool(with_spark and chosen)
    if analyzed:
        found = check.examine(workspace.spark(), pipeline, chosen, home)
        plans, redacted = found.definition.plans, workspace.settings.redacted
        problems += found.problems + redaction.shown_partitions(pipeline, plans, redacted)
        left_out |= _unchecked(found, chosen)
    else:
        problems += _without_spark(workspace, pipeline, chosen, left_out)
    checked = [name for name in (*pipeline.tables, *chosen) if name not in left_out]
    return DefinitionCheck(
        problems=tuple(_located(problem, declared, workspace) for problem in problems),
        checked=tuple(checked),
        not_checked=left_out,
        with_spark=analyzed,
    )


def _wired(
    declared: Declarations, *, unread: bool
) -> tuple[Pipeline, list[Problem], dict[str, str]]:
    """Wire what is sound: leave out declarations with mistakes and what reads them, so that the
    rest can be checked too. `unread`: some file could not be read, and may declare anything."""
    problems: list[Problem] = []
    left_out: dict[str, str] = {}
    items = list(declared)
    while True:
        known = {item.name for item in items}
        for item in items:
            lacking = [n for n in item.inputs if n not in known] if isinstance(item, Asset) else []
            if lacking and (unread or set(lacking) & set(left_out)):
                left_out[item.name] = f"it reads {lacking[0]!r}, which could not be read"
        items = [item for item in items if item.name not in left_out]
        if any(_reads(item, left_out) for item in items):
            continue  # what reads something that was left out has to go first
        try:
            return Pipeline.of(items), problems, left_out
        except DefinitionError as error:
            problems += error.problems
            named = {problem.where.partition(" ")[2] for problem in error.problems}
            left_out |= dict.fromkeys(named, HAS_MISTAKES)
            if not named & known:
                return Pipeline({}, {}, {}), problems, left_out


def _reads(item: object, names: Collection[str]) -> bool:
    return isinstance(item, Asset) and bool(set(item.inputs) & set(names))


def _selected(
    pipeline: Pipeline, terms: Sequence[str], left_out: Mapping[str, str], wrong: bool
) -> list[str]:
    def modified() -> list[str]:
        raise UsageError("check: state: needs the database, which check does not read")

    try:
        return select(pipeline, terms, modified)
    except NotFound as error:
        # The name may be declared in a file that cannot be read; then its mistakes are the answer.
        if error.name in left_out or wrong:
            return []
        raise


def _threshold_problems(workspace: Workspace) -> list[Problem]:
    try:
        Thresholds.of(workspace.settings.thresholds)
    except UsageError as error:
        return [Problem(FILE, str(error), file=FILE)]
    return []


def _unchecked(found: check.Examined, chosen: Sequence[str]) -> dict[str, str]:
    reasons = {name: str(error) for name, error in found.unreadable.items()}
    for name, given in found.unknown.items():
        if name in check.upstream(found.definition.pipeline, chosen):
            reasons[name] = f"it reads {given!r}, which could not be checked or has mistakes"
    return reasons


def _without_spark(
    workspace: Workspace, pipeline: Pipeline, chosen: Sequence[str], left_out: dict[str, str]
) -> list[Problem]:
    """Build the plans, and check what needs no columns and no types."""
    if chosen:
        workspace.session.enter_mode()
    problems: list[Problem] = []
    plans: dict[str, Frame] = {}
    for name in chosen:
        try:
            plan = _plan(pipeline.assets[name].plan)
            numbers(plan)
            plans[name] = plan
        except _NeedsSpark:
            left_out[name] = NO_SPARK
        except TallymanError as error:
            problems.append(Problem(f"asset {name}", str(error)))
    return problems + output_problems(pipeline, plans, workspace.home)


class _NeedsSpark(Exception):
    """A plan contains a Column, and PySpark makes one only with a session."""


def _plan(build: Callable[[], Frame]) -> Frame:
    try:
        plan = build()
    except TallymanError:
        raise
    except Exception as error:  # the author's code: any error in it is a mistake
        if _in_pyspark(error):
            raise _NeedsSpark from error
        raise UsageError(described(error)) from error
    if not isinstance(plan, Frame):
        raise UsageError(f"the function must return a Frame, not {type(plan).__name__}")
    return plan


def _in_pyspark(error: Exception) -> bool:
    """True if the error came up inside PySpark."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace else ""
    return str(module).partition(".")[0] in ("pyspark", "py4j")


def _located(problem: Problem, declared: Declarations, workspace: Workspace) -> Problem:
    """Add file and line of the declaration that a mistake is about."""
    if problem.file is not None:
        return problem
    place = declared.places.get(problem.where.partition(",")[0])
    if place is None:
        return problem
    file, line = place
    if os.path.isabs(file):
        file = os.path.relpath(file, workspace.home)
    return replace(problem, file=file, line=line)
