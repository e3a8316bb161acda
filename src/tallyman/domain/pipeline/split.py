"""Splits: named outputs among which an asset divides its rows, and the assets that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import loading
from tallyman.domain.definition.step import Filter, Split, otherwise, route
from tallyman.domain.pipeline import arguments
from tallyman.domain.version.dataset import checked_name
from tallyman.errors import UsageError

if TYPE_CHECKING:
    from tallyman.domain.pipeline.pipeline import Asset

Outputs = tuple[tuple[str, str], ...]
RULE = "no_output"


def checked_outputs(what: str, given: object) -> Outputs:
    """Return the outputs and their conditions, in order."""
    if given is None:
        return ()
    if not isinstance(given, (Mapping, list, tuple)):
        raise UsageError(f"{what}: expected outputs and conditions, not {arguments.shown(given)}")
    listed = list(given.items() if isinstance(given, Mapping) else given)
    if not all(isinstance(each, (list, tuple)) and len(each) == 2 for each in listed):
        raise UsageError(f"{what}: expected outputs and conditions, not {arguments.shown(given)}")
    found = tuple((_name(what, name), _condition(what, name, each)) for name, each in listed)
    if len(found) < 2:
        raise UsageError(f"{what}: give at least two outputs")
    if len(dict(found)) < len(found):
        raise UsageError(f"{what}: an output is named twice")
    for name, condition in found[:-1]:
        if condition.strip().lower() == otherwise:
            raise UsageError(f"{what}: {name!r} takes every row; it must be the last output")
    return found


def _name(what: str, given: object) -> str:
    return checked_name(arguments.text(what, given))


def _condition(what: str, name: str, given: object) -> str:
    if given is True:
        return otherwise
    return arguments.text(f"{what}: {name}", given)


def with_split(plan: Frame, outputs: Outputs) -> Frame:
    """Add the step that rejects rows without an output."""
    to = route(outputs)
    step = Split(rule=RULE, predicate=f"{to} IS NOT NULL", outputs=outputs, name="split")
    return Frame(plan.input, step, plan)


@dataclass(frozen=True, slots=True)
class ReadsOutputs:
    """The function of an asset that reads outputs: it reads the whole asset, and leaves out rows of
    other outputs."""

    written: Asset
    inputs: tuple[str, ...]
    splits: Mapping[str, Asset]
    """The asset of each output that is read."""

    def __call__(self, *frames: Frame) -> Frame:
        given = dict(zip(self.inputs, frames, strict=True))
        return self.written.function(*(self._frame(name, given) for name in self.written.inputs))

    def _frame(self, name: str, given: Mapping[str, Frame]) -> Frame:
        if name not in self.splits:
            return given[name]
        asset = self.splits[name]
        own = Filter(
            predicate=f"{route(asset.split)} = '{name}'",
            reason=f"in another output of {asset.name}",
            name=f"only_{name}",
        )
        return loading(given[asset.name], own)


def wired(asset: Asset, outputs: Mapping[str, Asset]) -> Asset:
    """Return the asset with the assets whose outputs it reads as inputs."""
    splits = {name: outputs[name] for name in asset.inputs if name in outputs}
    if not splits:
        return asset
    names = (splits[name].name if name in splits else name for name in asset.inputs)
    inputs = tuple(dict.fromkeys(names))
    return replace(asset, inputs=inputs, function=ReadsOutputs(asset, inputs, splits))
