"""Sources, tables and assets declared in YAML: by the functions that declare them in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from tallyman.control.pipeline.yaml_loader import Mapped, YamlText, read
from tallyman.control.pipeline.yaml_part import (
    TRUTHS,
    Notes,
    YamlPart,
    expression,
    names,
    number,
    read_selectors,
    text,
    texts,
    truth,
)
from tallyman.control.pipeline.yaml_steps import Key, Used, YamlStep, apply, read_keys
from tallyman.control.pipeline.yaml_verbs import steps as read_steps
from tallyman.domain.definition.approval import Approval, approval
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.partition import Partitioning, daily, partitions
from tallyman.domain.definition.pipeline import Asset, Source, asset, source, table
from tallyman.domain.version.table import Table
from tallyman.errors import DefinitionError, TallymanError

Made = TypeVar("Made")


def declared_in(path: Path) -> list[Source | Asset | Table]:
    """What a file declares, in its order, or DefinitionError with all its mistakes."""
    file = f"{path.parent.name}/{path.name}"
    root, problems = read(file, path.read_bytes())
    notes = Notes(file, problems)
    found = [] if root is None else _declared(YamlPart("", root, notes))
    if notes.problems:
        raise DefinitionError(notes.problems)
    return found


def _declared(root: YamlPart) -> list[Source | Asset | Table]:
    sections = root.entries(("sources", "tables", "selectors", "assets"))
    if "selectors" in sections:
        read_selectors(sections.pop("selectors").entries())
    read = [
        READERS[section](name, part)
        for section, whole in sections.items()
        for name, part in whole.entries().items()
    ]
    return [item for item in read if item is not None]


def _made(
    part: YamlPart,
    parts: Mapping[str, YamlPart],
    keys: Mapping[str, Key],
    make: Callable[..., Made],
    called: str = "",
) -> Made | None:
    """What a public function makes of the values. What it calls a mistake is one of this part."""
    before = part.mistakes
    values = read_keys(part, parts, keys)
    if part.mistakes > before:
        return None
    try:
        return make(**values)
    except TallymanError as error:
        part.fail(str(error).removeprefix(f"{called}: "))
        return None


# ---- values that have a shape of their own -----------------------------------------------------


def _thresholds(part: YamlPart) -> object:
    """A preset, or limits by name."""
    return texts(part) if isinstance(part.node, Mapped) else text(part)


def _partitions(part: YamlPart) -> Partitioning | None:
    """Days from a start, or a list of values."""
    parts = part.entries(("column", "start", "end", "values"))
    if ("start" in parts) == ("values" in parts) or ("end" in parts and "values" in parts):
        part.fail("say 'start' for days, with an 'end' or without, or 'values'")
        return None
    column = {"column": Key(text, required=True)}
    if "values" in parts:
        return _made(part, parts, column | {"values": Key(names)}, partitions)
    return _made(part, parts, column | {"start": Key(text), "end": Key(text)}, daily)


def _approval(part: YamlPart) -> Approval | None:
    """The message, or it and more."""
    keys = {"message": Key(text, required=True), "when": Key(expression), "timeout_s": Key(number)}
    short = isinstance(part.node, YamlText) and not part.is_empty
    return _made(part, {"message": part} if short else part.entries(keys), keys, approval)


def _published(part: YamlPart) -> str | bool | None:
    """The name of the dataset, or whether it is for readers outside."""
    node = part.node
    if isinstance(node, YamlText) and node.plain and node.text.lower() in TRUTHS:
        return TRUTHS[node.text.lower()]
    return text(part)


# ---- what is declared --------------------------------------------------------------------------

SOURCE = {
    "path": Key(text, required=True),
    "format": Key(text),
    "schema": Key(text),
    "key": Key(names),
    "options": Key(texts),
}
TABLE = {
    "schema": Key(text, required=True),
    "key": Key(names, required=True),
    "references": Key(texts),
}
ASSET = {
    "key": Key(names),
    "unique": Key(truth),
    "thresholds": Key(_thresholds),
    "evidence": Key(text),
    "tags": Key(names),
    "partitioned_by": Key(_partitions),
    "approval": Key(_approval),
    "update_strategy": Key(text),
    "unique_key": Key(names),
    "publish": Key(_published),
    "trace": Key(text),
}


def _source(name: str, part: YamlPart) -> Source | None:
    return _made(part, part.entries(SOURCE), SOURCE, partial(source, name), f"source {name}")


def _table(name: str, part: YamlPart) -> Table | None:
    return _made(part, part.entries(TABLE), TABLE, partial(table, name), f"table {name}")


@dataclass(frozen=True, slots=True)
class WrittenYaml:
    """The function of an asset: steps on the first of its inputs, which may name the others."""

    inputs: tuple[str, ...]
    steps: tuple[YamlStep, ...]

    def __call__(self, *frames: Frame) -> Frame:
        return apply(self.steps, frames[0], dict(zip(self.inputs, frames, strict=True)))


def _asset(name: str, part: YamlPart) -> Asset | None:
    before = part.mistakes
    parts = part.entries((*ASSET, "from", "steps"))
    start = text(parts.pop("from")) if "from" in parts else part.fail("'from' is missing")
    steps = read_steps(parts.pop("steps"), start or "?") if "steps" in parts else ()
    used = Used()
    if start is not None and part.mistakes == before:
        apply(steps, used[start], used)
    function = WrittenYaml(tuple(used), steps)
    made = _made(part, parts, ASSET, partial(asset, function, name=name), f"asset {name}")
    # Parameters have names that Python allows; here an input may be called anything.
    return replace(made, inputs=function.inputs) if isinstance(made, Asset) else None


READERS: Mapping[str, Callable[[str, YamlPart], Source | Asset | Table | None]] = {
    "sources": _source,
    "tables": _table,
    "assets": _asset,
}
