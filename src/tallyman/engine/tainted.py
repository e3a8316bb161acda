"""Columns that show what another one must not: renamed, copied or computed from it."""

from __future__ import annotations

from collections.abc import Collection

from tallyman.domain.frame import Frame
from tallyman.domain.plan import frames
from tallyman.domain.step import Aggregate, GroupBy, Rename, Select, Step, Update, WithColumns
from tallyman.engine.columns import mentioned, text_of


def tainted(plan: Frame, columns: Collection[str]) -> frozenset[str]:
    """The columns and all that a step of the plan may have made from them: never too few."""
    found = {name.lower() for name in columns}
    size = -1
    while columns and size != len(found):
        size = len(found)
        for frame in frames(plan):
            for step in frame.steps():
                found |= _made_from(step, found)
    return frozenset(found)


def _made_from(step: Step, hidden: Collection[str]) -> set[str]:
    match step:
        case Rename():
            return {step.new.lower()} if step.old.lower() in hidden else set()
        case WithColumns():
            pairs = step.columns
        case Update():
            pairs = step.set
        case Aggregate() | GroupBy():
            pairs = step.aggregates
        case Select():
            # Its new name is the last word of the text; one that Spark makes up holds the old.
            texts = [text_of(each) for each in step.columns]
            telling = [text for text in texts if mentioned([text], list(hidden))]
            last = {text.replace("`", "").split()[-1].lower() for text in telling}
            return last | {text.lower() for text in telling}
        case _:
            return set()
    return {name.lower() for name, value in pairs if mentioned([value], list(hidden))}
