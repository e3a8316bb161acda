"""Numbers and names for the steps of a plan: what evidence, traces and messages call them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step_facts import LOADING, Step
from tallyman.errors import UsageError


def chain(frame: Frame) -> list[Frame]:
    """The Frames of a plan that end in a step, first step first; not those of other inputs."""
    found: list[Frame] = []
    node: Frame | None = frame
    while node is not None and node.parent is not None:
        found.append(node)
        node = node.parent
    return found[::-1]


def next_number(last: int) -> int:
    """Of a step that gives itself none: the next ten."""
    return (last // 10 + 1) * 10


def numbers(frame: Frame) -> dict[Frame, int]:
    """The seq of every step of the chain by its Frame; they must rise."""
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
    """The id of every accounted step by its Frame: its name, or `<seq>_<kind>`.

    Steps of another input that flows in are named after the step that takes it in.
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
    """What is done to records before the author's first step."""
    for step in steps:
        frame = Frame(frame.input, replace(step, seq=LOADING), frame)
    return frame


def accounted_inputs(frame: Frame) -> list[str]:
    """The inputs whose records this plan must account for, once for each time it reads them."""
    if frame.step is None or frame.parent is None:
        return [frame.input]
    own = accounted_inputs(frame.parent)
    inflow = frame.step.inflow
    return own if inflow is None else own + accounted_inputs(inflow)


def others(step: Step) -> Iterator[Frame]:
    """The other plans a step reads."""
    if step.inflow is not None:
        yield step.inflow
    yield from (lookup.other for lookup in step.references)


def frames(frame: Frame) -> Iterator[Frame]:
    """The plan itself and every other plan in it."""
    yield frame
    for step in frame.steps():
        for other in others(step):
            yield from frames(other)


def working_steps(frame: Frame) -> list[Frame]:
    """The chain behind the last step that combines rows, and behind loading: where rows keep
    their identity from step to step."""
    found: list[Frame] = []
    for node in chain(frame):
        assert node.step is not None
        found = [] if node.step.combines or node.step.seq == LOADING else [*found, node]
    return found


def is_traced(trace: str | None, frame: Frame) -> bool:
    """As the asset says; else, whether it has a step that changes rows in place."""
    if trace is not None:
        return trace == "changes"
    return any(step.changes_rows for step in frame.steps())


def has_working_set(trace: str | None, frame: Frame) -> bool:
    return is_traced(trace, frame) or any(step.in_place for step in frame.steps())
