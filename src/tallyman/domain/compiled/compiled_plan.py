"""The plan of an asset that was compiled: it takes the place of the function that made it."""

from __future__ import annotations

from dataclasses import dataclass

from tallyman.domain.definition.expressions import grafted
from tallyman.domain.definition.frame import Frame
from tallyman.errors import DefinitionError, Problem


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A function of Frames that returns a known plan, on the Frames it is given."""

    inputs: tuple[str, ...]
    plan: Frame
    code: str | None = None
    """The Python function that made the plan, for people; None if there is none."""

    def __call__(self, *frames: Frame) -> Frame:
        given = dict(zip(self.inputs, frames, strict=True))
        if all(frame.step is None and frame.input == name for name, frame in given.items()):
            return self.plan
        return grafted(self.plan, given)


@dataclass(frozen=True, slots=True)
class MistakenPlan:
    """A function in place of one that makes no plan: it raises the mistakes that were found."""

    problems: tuple[Problem, ...]

    def __call__(self, *_: Frame) -> Frame:
        raise DefinitionError(self.problems)
