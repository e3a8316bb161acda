"""Find every mistake in a project's definitions, without a run and without the database."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tallyman.control.pipeline.outputs import output_problems
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.pipeline import Asset, Item, Pipeline
from tallyman.domain.pipeline.selection import select
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.errors import DefinitionError, NotFound, Problem, UsageError
from tallyman.on_demand import OnDemand
from tallyman.settings import FILE

if TYPE_CHECKING:
    from tallyman.control.pipeline import check, redaction
else:
    check = OnDemand("tallyman.control.pipeline.check")
    redaction = OnDemand("tallyman.control.pipeline.redaction")

HAS_MISTAKES = "it has mistakes"


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
    declared, problems = workspace.compiled().declared()
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
        problems += _without_spark(workspace, pipeline, chosen)
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
        known = {name for item in items for name in _names(item)}
        gone = {name for item in declared if item.name in left_out for name in _names(item)}
        for item in items:
            lacking = [n for n in item.inputs if n not in known] if isinstance(item, Asset) else []
            if lacking and (unread or set(lacking) & gone):
                left_out[item.name] = f"it reads {lacking[0]!r}, which could not be read"
        items = [item for item in items if item.name not in left_out]
        gone = {name for item in declared if item.name in left_out for name in _names(item)}
        if any(_reads(item, gone) for item in items):
            continue  # what reads something that was left out has to go first
        try:
            return Pipeline.of(items), problems, left_out
        except DefinitionError as error:
            problems += error.problems
            named = {problem.where.partition(" ")[2] for problem in error.problems}
            left_out |= dict.fromkeys(named, HAS_MISTAKES)
            if not named & known:
                return Pipeline({}, {}, {}), problems, left_out


def _names(item: Item) -> list[str]:
    """List what others may name as an input: the item itself, and its outputs."""
    return [item.name, *(dict(item.split) if isinstance(item, Asset) else ())]


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
            reasons[name] = (
                f"it reads {given!r} of another pipeline: its columns are known when it runs"
                if given in found.definition.pipeline.shared
                else f"it reads {given!r}, which could not be checked or has mistakes"
            )
    return reasons


def _without_spark(
    workspace: Workspace, pipeline: Pipeline, chosen: Sequence[str]
) -> list[Problem]:
    """Check what needs no columns and no types."""
    problems: list[Problem] = []
    plans: dict[str, Frame] = {}
    for name in chosen:
        try:
            plans[name] = pipeline.assets[name].plan()
        except DefinitionError as error:
            problems += error.problems
    return problems + output_problems(pipeline, plans, workspace.home)


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
