"""Numbers and names of the steps of a plan, as used in evidence, traces and messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step_facts import LOADING, Lookup, Step
from tallyman.domain.definition.working_step import Output
from tallyman.errors import UsageError


def chain(frame: Frame) -> list[Frame]:
    """List the Frames of a plan that end in a step, first step first, without other inputs."""
    found: list[Frame] = []
    node: Frame | None = frame
    while node is not None and node.parent is not None:
        found.append(node)
        node = node.parent
    return found[::-1]


def next_number(last: int) -> int:
    """Return the number for a step without one: the next multiple of ten."""
    return (last // 10 + 1) * 10


def numbers(frame: Frame) -> dict[Frame, int]:
    """Map each Frame of the chain to the seq of its step; UsageError unless the numbers rise."""
    found: dict[Frame, int] = {}
    last = 0
    for node in chain(frame):
        step = node.step
        assert step is not None
        seq = next_number(last) if step.seq is None else step.seq
        if seq != LOADING and seq <= last:
            raise UsageError(f"seq {seq} comes after seq {last}: numbers must rise along the chain")
        found[node] = seq
        last = max(last, seq)
    return found


def step_ids(frame: Frame) -> dict[Frame, str]:
    """Map each accounted step's Frame to the step's id: its name, or `<seq>_<kind>`.

    Steps of another input get the id of the step that takes this input in as a prefix.
    """
    named: dict[Frame, str] = {}
    _name(frame, "", named)
    return named


def _name(frame: Frame, prefix: str, named: dict[Frame, str]) -> None:
    for node, seq in zip(chain(frame), numbers(frame).values(), strict=True):
        assert node.step is not None
        own = node.step.name or f"{prefix}{seq}_{node.step.kind}"
        named.setdefault(node, own)
        if node.step.inflow is not None:
            _name(node.step.inflow, f"{own}.", named)


def loading(frame: Frame, *steps: Step) -> Frame:
    """Add steps that run on records before the author's first step."""
    for step in steps:
        frame = Frame(frame.input, replace(step, seq=LOADING), frame)
    return frame


def accounted_inputs(frame: Frame) -> list[str]:
    """List the inputs that this plan must account for, once for each time it reads them."""
    if frame.step is None or frame.parent is None:
        return [frame.input]
    own = accounted_inputs(frame.parent)
    inflow = frame.step.inflow
    return own if inflow is None else own + accounted_inputs(inflow)


def lookups(frame: Frame) -> Iterator[tuple[Frame, Lookup]]:
    """Yield what is looked up, with the Frame of the step that does it, inflows included."""
    for node in chain(frame):
        assert node.step is not None
        yield from ((node, lookup) for lookup in node.step.references)
        if node.step.inflow is not None:
            yield from lookups(node.step.inflow)


def inputs_read(frame: Frame) -> list[str]:
    """List the inputs that a plan reads, its own first."""
    return list(dict.fromkeys(each.input for each in frames(frame)))


def others(step: Step) -> Iterator[Frame]:
    """Yield the other plans that a step reads."""
    if step.inflow is not None:
        yield step.inflow
    yield from (lookup.other for lookup in step.references)


def frames(frame: Frame) -> Iterator[Frame]:
    """Yield the plan itself and every other plan in it."""
    yield frame
    for step in frame.steps():
        for other in others(step):
            yield from frames(other)


def registered_names(frame: Frame) -> list[str]:
    """List the datasets that output steps register."""
    steps = (step for step in frame.steps() if isinstance(step, Output))
    return [step.register_as for step in steps if step.register_as is not None]


def working_steps(frame: Frame) -> list[Frame]:
    """List the chain after loading and after the last step that combines rows.

    There rows keep their identity from step to step.
    """
    found: list[Frame] = []
    for node in chain(frame):
        assert node.step is not None
        found = [] if node.step.combines or node.step.seq == LOADING else [*found, node]
    return found


def is_traced(trace: str | None, frame: Frame) -> bool:
    """True if the asset declares it, or, without a declaration, if a step changes rows in place."""
    if trace is not None:
        return trace == "changes"
    return any(step.changes_rows for step in frame.steps())


def has_working_set(trace: str | None, frame: Frame) -> bool:
    return is_traced(trace, frame) or any(step.in_place for step in frame.steps())
