"""Sources, tables and assets declared in YAML, built by the same functions as in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from tallyman.control.compile.yaml_loader import Mapped, YamlText, read
from tallyman.control.compile.yaml_piece import (
    TRUTHS,
    Notes,
    YamlPiece,
    expression,
    expressions,
    names,
    number,
    plain_entries,
    read_selectors,
    text,
    texts,
    truth,
)
from tallyman.control.compile.yaml_steps import Key, Used, YamlStep, apply, read_keys
from tallyman.control.compile.yaml_verbs import steps as read_steps
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.approval import Approval, approval
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.declare import asset, dataset, source, table
from tallyman.domain.pipeline.partition import Partitioning, daily, partitions
from tallyman.domain.pipeline.pipeline import Asset, Item, SharedDataset, Source
from tallyman.domain.pipeline.trigger import Trigger, schedule
from tallyman.domain.task.retry import RetryPolicy, retry
from tallyman.domain.version.table import Table
from tallyman.errors import DefinitionError, TallymanError

Made = TypeVar("Made")


def declared_in(path: Path) -> Declarations:
    """Read what a file declares, in its order, or raise DefinitionError with all its mistakes."""
    file = f"{path.parent.name}/{path.name}"
    root, problems = read(file, path.read_bytes())
    notes = Notes(file, problems)
    found = Declarations() if root is None else _declared(YamlPiece("", root, notes))
    if notes.problems:
        raise DefinitionError(notes.problems)
    return found


def _declared(root: YamlPiece) -> Declarations:
    sections = root.entries(("sources", "tables", "datasets", "selectors", "assets"))
    if "selectors" in sections:
        read_selectors(sections.pop("selectors").entries())
    found = Declarations()
    for section, whole in sections.items():
        for name, piece in whole.entries().items():
            for item in _items(section, name, piece):
                found.append(item)
                kind = "dataset" if isinstance(item, SharedDataset) else section.removesuffix("s")
                found.place(f"{kind} {item.name}", piece.notes.file, piece.node.line)
    return found


def _items(section: str, name: str, piece: YamlPiece) -> Iterator[Item]:
    """Yield what an entry declares: an asset may also declare the shared dataset that it reads."""
    if section == "assets" and isinstance(shared := _shared_from(piece), SharedDataset):
        yield shared
    item = READERS[section](name, piece)
    if item is not None:
        yield item


def _made(
    piece: YamlPiece,
    pieces: Mapping[str, YamlPiece],
    keys: Mapping[str, Key],
    make: Callable[..., Made],
    called: str = "",
) -> Made | None:
    """Call a public function with the values; its error becomes a mistake of this part."""
    before = piece.mistakes
    values = read_keys(piece, pieces, keys)
    if piece.mistakes > before:
        return None
    try:
        return make(**values)
    except TallymanError as error:
        piece.fail(str(error).removeprefix(f"{called}: "))
        return None


# ---- structured values -------------------------------------------------------------------------


def _thresholds(piece: YamlPiece) -> object:
    """Read a preset, or limits by name."""
    return texts(piece) if isinstance(piece.node, Mapped) else text(piece)


def _partitions(piece: YamlPiece) -> Partitioning | None:
    """Read days from a start, or a list of values."""
    pieces = piece.entries(("column", "start", "end", "values"))
    if ("start" in pieces) == ("values" in pieces) or ("end" in pieces and "values" in pieces):
        piece.fail("use either 'start' for days, optionally with 'end', or 'values'")
        return None
    column = {"column": Key(text, required=True)}
    if "values" in pieces:
        return _made(piece, pieces, column | {"values": Key(names)}, partitions)
    return _made(piece, pieces, column | {"start": Key(text), "end": Key(text)}, daily)


def _approval(piece: YamlPiece) -> Approval | None:
    """Read the message, or a mapping with the message and more."""
    keys = {"message": Key(text, required=True), "when": Key(expression), "timeout_s": Key(number)}
    short = isinstance(piece.node, YamlText) and not piece.is_empty
    return _made(piece, {"message": piece} if short else piece.entries(keys), keys, approval)


def _published(piece: YamlPiece) -> str | bool | None:
    """Read the dataset's name, or whether outside readers see it."""
    node = piece.node
    if isinstance(node, YamlText) and node.plain and node.text.lower() in TRUTHS:
        return TRUTHS[node.text.lower()]
    return text(piece)


def _trigger(piece: YamlPiece) -> Trigger | None:
    """Read a word, or a schedule."""
    if not isinstance(piece.node, Mapped):
        return text(piece)
    keys = {"cron": Key(text, required=True), "timezone": Key(text)}
    return _made(piece, piece.entries(keys), keys, schedule, "schedule")


def _retry(piece: YamlPiece) -> RetryPolicy | None:
    keys = {"attempts": Key(number)}
    keys |= {name: Key(text) for name in ("timeout", "backoff", "backoff_cap")}
    return _made(piece, piece.entries(keys), keys, retry, "retry")


# ---- declarations ------------------------------------------------------------------------------

SOURCE = {
    "path": Key(text, required=True),
    "format": Key(text),
    "schema": Key(text),
    "key": Key(names),
    "options": Key(texts),
    "on_empty": Key(text),
    "on_shrink": Key(text),
}
TABLE = {
    "schema": Key(text, required=True),
    "key": Key(names, required=True),
    "references": Key(plain_entries),
    "rules": Key(plain_entries),
}
ASSET = {
    "key": Key(names),
    "unique": Key(truth),
    "thresholds": Key(_thresholds),
    "evidence": Key(text),
    "tags": Key(names),
    "meta": Key(texts),
    "partitioned_by": Key(_partitions),
    "approval": Key(_approval),
    "update_strategy": Key(text),
    "unique_key": Key(names),
    "publish": Key(_published),
    "publish_rejections": Key(text),
    "split": Key(expressions),
    "trace": Key(text),
    "trigger": Key(_trigger),
    "retry": Key(_retry),
    "timeout": Key(text),
    "priority": Key(number),
    "pool": Key(text),
    "max_concurrency": Key(number),
}


def _source(name: str, piece: YamlPiece) -> Source | None:
    return _made(piece, piece.entries(SOURCE), SOURCE, partial(source, name), f"source {name}")


def _table(name: str, piece: YamlPiece) -> Table | None:
    return _made(piece, piece.entries(TABLE), TABLE, partial(table, name), f"table {name}")


def _shared(name: str, piece: YamlPiece) -> SharedDataset | None:
    keys = {"dataset": Key(text)}
    make = partial(_declare_shared, name)
    return _made(piece, piece.entries(keys), keys, make, f"dataset {name}")


def _declare_shared(name: str, **given: str) -> SharedDataset:
    return dataset(given.get("dataset", name), name=name)


def _shared_from(piece: YamlPiece) -> SharedDataset | None:
    """Read the dataset of another pipeline that `from: {dataset: …}` of an asset names."""
    if not isinstance(piece.node, Mapped):
        return None
    node = next((node for key, node in piece.node.entries if key.text == "from"), None)
    if not isinstance(node, Mapped):
        return None
    start = YamlPiece(f"{piece.path}.from", node, piece.notes)
    keys = {"dataset": Key(text, required=True), "name": Key(text)}
    return _made(start, start.entries(keys), keys, dataset, "dataset")


def _start(piece: YamlPiece) -> str | None:
    """Read the name of the first input; a mistake in a shared dataset is already recorded."""
    if not isinstance(piece.node, Mapped):
        return text(piece)
    given = {key.text: node.text for key, node in piece.node.entries if isinstance(node, YamlText)}
    return given.get("name") or given.get("dataset")


@dataclass(frozen=True, slots=True)
class WrittenYaml:
    """The function of an asset declared in YAML: steps on its first input, which may name other
    inputs."""

    inputs: tuple[str, ...]
    steps: tuple[YamlStep, ...]

    def __call__(self, *frames: Frame) -> Frame:
        return apply(self.steps, frames[0], dict(zip(self.inputs, frames, strict=True)))


def _asset(name: str, piece: YamlPiece) -> Asset | None:
    before = piece.mistakes
    pieces = piece.entries((*ASSET, "from", "steps"))
    start = _start(pieces.pop("from")) if "from" in pieces else piece.fail("'from' is missing")
    steps = read_steps(pieces.pop("steps"), start or "?") if "steps" in pieces else ()
    used = Used()
    if start is not None and piece.mistakes == before:
        apply(steps, used[start], used)
    function = WrittenYaml(tuple(used), steps)
    made = _made(piece, pieces, ASSET, partial(asset, function, name=name), f"asset {name}")
    # A Python parameter needs a valid identifier; in YAML an input may have any name.
    return replace(made, inputs=function.inputs) if isinstance(made, Asset) else None


READERS: Mapping[str, Callable[[str, YamlPiece], Item | None]] = {
    "sources": _source,
    "tables": _table,
    "datasets": _shared,
    "assets": _asset,
}
