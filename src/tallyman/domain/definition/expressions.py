"""The expressions of a plan: listing them, and rewriting a plan with other expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from tallyman.domain.definition.expression import Expression
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames
from tallyman.domain.definition.step_facts import Lookup, Step

Change = Callable[[Expression], Expression]


def of_plan(frame: Frame) -> Iterator[Expression]:
    """Yield the expressions of every step, also of the other plans that steps read."""
    for each in frames(frame):
        for step in each.steps():
            yield from step.expressions()


def rewritten(frame: Frame, change: Change) -> Frame:
    """Copy a plan with every expression changed; shared Frames stay shared."""
    return _Rewriting(change, {}).frame(frame)


def grafted(frame: Frame, inputs: Mapping[str, Frame]) -> Frame:
    """Copy a plan with other Frames in place of its inputs."""
    return _Rewriting(lambda expression: expression, inputs).frame(frame)


class _Rewriting:
    def __init__(self, change: Change, inputs: Mapping[str, Frame]) -> None:
        self.change, self.inputs = change, inputs
        self.done: dict[int, Frame] = {}

    def frame(self, frame: Frame) -> Frame:
        if frame.step is None or frame.parent is None:
            return self.inputs.get(frame.input, frame)
        if id(frame) not in self.done:
            parent = self.frame(frame.parent)
            # The parent's: a Frame that takes the place of an input may read another one.
            self.done[id(frame)] = Frame(parent.input, self._step(frame.step), parent)
        return self.done[id(frame)]

    def _step(self, step: Step) -> Step:
        values = {field.name: getattr(step, field.name) for field in fields(step)}
        changed = {
            name: self._expressions(value) if name in step.holds else self._plans(value)
            for name, value in values.items()
        }
        return replace(step, **changed)  # type: ignore[arg-type]

    def _plans(self, value: object) -> object:
        """Rewrite the plans that a field is or holds; return any other value unchanged."""
        if isinstance(value, Frame):
            return self.frame(value)
        if isinstance(value, tuple):
            return tuple(
                replace(each, other=self.frame(each.other)) if isinstance(each, Lookup) else each
                for each in value
            )
        return value

    def _expressions(self, value: Any) -> object:
        if isinstance(value, tuple):
            return tuple(
                (each[0], self.change(each[1])) if isinstance(each, tuple) else self.change(each)
                for each in value
            )
        return None if value is None else self.change(value)
