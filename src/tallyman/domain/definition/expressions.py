"""The expressions of a plan: where its steps hold them, and the same plan with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames
from tallyman.domain.definition.step import Append, Expression, Join, Step, Union, Update

EXPRESSIONS: Mapping[str, tuple[str, ...]] = {
    "select": ("columns",),
    "withColumn": ("columns",),
    "filter": ("predicate",),
    "expect": ("predicate",),
    "groupBy": ("aggregates",),
    "update": ("set", "where"),
    "delete": ("where",),
    "aggregate": ("aggregates", "where"),
}
"""The fields of a step that hold SQL or Columns; all other fields are taken as they are."""

Change = Callable[[Expression], Expression]


def of_step(step: Step) -> Iterator[Expression]:
    for name in EXPRESSIONS.get(step.kind, ()):
        value = getattr(step, name)
        if isinstance(value, tuple):
            yield from (each[1] if isinstance(each, tuple) else each for each in value)
        elif value is not None:
            yield value


def of_plan(frame: Frame) -> Iterator[Expression]:
    """Of every step, also of the other plans that steps read."""
    for each in frames(frame):
        for step in each.steps():
            yield from of_step(step)


def rewritten(frame: Frame, change: Change) -> Frame:
    """The plan with every expression changed; Frames that are shared stay shared."""
    return _Rewriting(change).frame(frame)


class _Rewriting:
    def __init__(self, change: Change) -> None:
        self.change = change
        self.done: dict[int, Frame] = {}

    def frame(self, frame: Frame) -> Frame:
        if frame.step is None or frame.parent is None:
            return frame
        if id(frame) not in self.done:
            parent = self.frame(frame.parent)
            self.done[id(frame)] = Frame(frame.input, self._step(frame.step), parent)
        return self.done[id(frame)]

    def _step(self, step: Step) -> Step:
        fields: dict[str, object] = {
            name: self._field(getattr(step, name)) for name in EXPRESSIONS.get(step.kind, ())
        }
        if isinstance(step, (Join, Union, Append)):
            fields["other"] = self.frame(step.other)
        if isinstance(step, Update):
            fields["join"] = tuple(replace(e, other=self.frame(e.other)) for e in step.join)
        return replace(step, **fields)  # type: ignore[arg-type]

    def _field(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(
                (each[0], self.change(each[1])) if isinstance(each, tuple) else self.change(each)
                for each in value
            )
        return None if value is None else self.change(value)
