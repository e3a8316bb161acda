"""Names for the steps of a plan: what evidence files and messages call them."""

from __future__ import annotations

from collections.abc import Iterator

from tallyman.domain.frame import Frame
from tallyman.domain.step import Union


def morphism_ids(frame: Frame) -> dict[int, str]:
    """The id of every accounted step by the identity of its Frame: its name, or `<seq>_<kind>`."""
    named: dict[int, str] = {}
    for seq, node in enumerate(_accounted(frame), 1):
        assert node.step is not None
        named.setdefault(id(node), node.step.name or f"{10 * seq}_{node.step.kind}")
    return named


def accounted_inputs(frame: Frame) -> list[str]:
    """The inputs whose records this plan must account for, once for each time it reads them."""
    if frame.step is None or frame.parent is None:
        return [frame.input]
    own = accounted_inputs(frame.parent)
    return own + accounted_inputs(frame.step.other) if isinstance(frame.step, Union) else own


def _accounted(frame: Frame) -> Iterator[Frame]:
    if frame.parent is None:
        return
    yield from _accounted(frame.parent)
    if isinstance(frame.step, Union):
        yield from _accounted(frame.step.other)
    yield frame
