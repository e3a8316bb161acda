"""Sources, tables, shared datasets and assets: the keys of each, read through the functions that
declare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

from tallyman.domain.account.fate import Evidence
from tallyman.domain.compiled.compiled_plan import CompiledPlan
from tallyman.domain.compiled.kinds import (
    FLAG,
    NAMES,
    NUMBER,
    SQL,
    TEXT,
    AnyKind,
    ByName,
    Grammar,
    Key,
    Listed,
    Ordered,
    PlanWriting,
    Scalar,
    TextOr,
    built,
    one_of,
    whole,
)
from tallyman.domain.compiled.piece import TRUTHS, Json, Piece
from tallyman.domain.compiled.steps import PLAN_SCHEMA, read_plan, write_plan
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import inputs_read
from tallyman.domain.pipeline import declare
from tallyman.domain.pipeline.approval import Approval, approval
from tallyman.domain.pipeline.partition import Partitioning, daily, partitions
from tallyman.domain.pipeline.pipeline import Asset, Item, SharedDataset, Source
from tallyman.domain.pipeline.threshold import REACTIONS, Thresholds
from tallyman.domain.pipeline.trigger import EVENT, MANUAL, MOST_PRIORITY, Schedule, schedule
from tallyman.domain.task.retry import RetryPolicy, retry
from tallyman.domain.version.table import Reference, Table
from tallyman.domain.version.table_rules import ValueRule
from tallyman.errors import UsageError

# ---- kinds of values that only declarations have -----------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spelled(Scalar):
    """A text from which its function makes another value; that is spelled as a text again."""

    spell: Callable[[Any], str]

    def write(self, value: Any, writing: PlanWriting) -> Json:
        return self.spell(value)


def _published(piece: Piece) -> str | bool | None:
    """Read the dataset's name, or whether outside readers see it."""
    is_truth = isinstance(piece.value, bool) or piece.word in TRUTHS
    return piece.truth() if is_truth else piece.text()


def _shared(name: str, dataset: str | None = None) -> SharedDataset:
    return declare.dataset(dataset or name, name=name)


def _partitioning(
    column: str,
    start: str | None = None,
    end: str | None = None,
    values: Sequence[str] | None = None,
) -> Partitioning:
    if (start is None) == (values is None) or (end is not None and values is not None):
        raise UsageError("use either 'start' for days, optionally with 'end', or 'values'")
    return daily(column, str(start), end) if values is None else partitions(column, values)


def _keys(kinds: Mapping[str, AnyKind], *required: str) -> dict[str, Key]:
    return {name: Key(kind, name in required) for name, kind in kinds.items()}


_REACTION, _COUNT = one_of(*REACTIONS), whole()
_DAY = _Spelled(Piece.text, {"type": "string", "format": "date"}, date.isoformat)
# `30m` is read, and written as `1800s`.
_DURATION = _Spelled(Piece.text, {"type": "string", "pattern": "^[0-9]{1,9}[smhd]$"}, "{}s".format)
_REFERENCE = Grammar(
    Reference,
    {
        "to": Key(TEXT, required=True, of="target"),
        "at_least": Key(_COUNT),
        "at_most": Key(_COUNT),
    },
    short="to",
)
_RULE = Grammar(
    ValueRule, _keys({"one_of": Listed(TEXT, least=1), "min": TEXT, "max": TEXT, "pattern": TEXT})
)
_THRESHOLDS = Grammar(
    Thresholds,
    _keys(
        {
            "absolute": _COUNT,
            "percentage": NUMBER,
            "window": _COUNT,
            "breaker": NUMBER,
            "on_break": one_of("hold"),
            "on_empty": _REACTION,
            "on_shrink": _REACTION,
            "children_absolute": _COUNT,
            "children_percentage": NUMBER,
            "groups_absolute": _COUNT,
            "groups_percentage": NUMBER,
        }
    ),
    Thresholds,
)
_PARTITIONING = Grammar(
    Partitioning,
    _keys({"column": TEXT, "start": _DAY, "end": _DAY, "values": NAMES}, "column"),
    _partitioning,
)
_APPROVAL = Grammar(
    Approval,
    _keys({"message": TEXT, "when": SQL, "timeout_s": whole(1)}, "message"),
    approval,
    short="message",
)
_SCHEDULE = Grammar(Schedule, _keys({"cron": TEXT, "timezone": TEXT}, "cron"), schedule)
_RETRY = Grammar(
    RetryPolicy,
    {
        "attempts": Key(whole(1)),
        "timeout": Key(_DURATION, of="timeout_s"),
        "backoff": Key(_DURATION, of="backoff_s"),
        "backoff_cap": Key(_DURATION, of="backoff_cap_s"),
    },
    retry,
)

# ---- the declarations ------------------------------------------------------------------------

SOURCE = Grammar(
    Source,
    _keys(
        {
            "path": TEXT,
            "format": one_of(*declare.FORMATS),
            "schema": TEXT,
            "key": NAMES,
            "options": ByName(TEXT),
            "on_empty": _REACTION,
            "on_shrink": _REACTION,
        },
        "path",
    ),
    declare.source,
)
TABLE = Grammar(
    Table,
    _keys(
        {
            "schema": TEXT,
            "key": NAMES,
            "references": ByName(_REFERENCE),
            "rules": ByName(_RULE),
        },
        "schema",
        "key",
    ),
    declare.table,
)
SHARED = Grammar(SharedDataset, {"dataset": Key(TEXT)}, _shared)
ASSET = Grammar(
    Asset,
    _keys(
        {
            "key": NAMES,
            "unique": FLAG,
            "thresholds": TextOr(TEXT, _THRESHOLDS),
            "evidence": one_of(*Evidence),
            "tags": NAMES,
            "meta": ByName(TEXT),
            "partitioned_by": _PARTITIONING,
            "approval": _APPROVAL,
            "update_strategy": one_of(*declare.STRATEGIES),
            "unique_key": NAMES,
            "publish": Scalar(_published, {"type": ["string", "boolean"]}),
            "publish_rejections": TEXT,
            "split": Ordered(SQL, "outputs and their conditions"),
            "trace": one_of(*declare.TRACES),
            "trigger": TextOr(one_of(MANUAL, EVENT), _SCHEDULE),
            "retry": _RETRY,
            "priority": whole(-MOST_PRIORITY),
            "pool": TEXT,
            "max_concurrency": whole(1),
        }
    )
    | {"timeout": Key(_DURATION, of=None)},
    declare.asset,
)
_SHARED_FROM = Grammar(
    SharedDataset, _keys({"dataset": TEXT, "name": TEXT}, "dataset"), declare.dataset
)
OF_PLAN = ("from", "steps", "inputs")
SECTIONS: Mapping[str, Grammar] = {
    "sources": SOURCE,
    "tables": TABLE,
    "datasets": SHARED,
    "assets": ASSET,
}


def write_item(item: Item, plan: Frame | None, writing: PlanWriting) -> tuple[str, dict[str, Json]]:
    """Write one declaration, an asset with its plan if there is one; return its section too."""
    section = next(name for name, record in SECTIONS.items() if record.made is type(item))
    if not isinstance(item, Asset):
        return section, SECTIONS[section].write(item, writing)
    item = item.written
    options = ASSET.write(item, writing)
    if plan is None:
        return section, {"inputs": list(item.inputs), **options}
    written = write_plan(plan, writing)
    used = inputs_read(plan)
    unused = sorted(set(item.inputs) - set(used))
    return section, written | ({"inputs": [*used, *unused]} if unused else {}) | options


def read_items(
    section: str, name: str, piece: Piece, without_plan: Callable[..., Frame] | None = None
) -> list[Item]:
    """Read one entry: an asset may also declare the shared dataset that it reads. For an asset
    whose plan could not be made, a function is called in its place."""
    if section == "assets":
        return _read_asset(name, piece, without_plan)
    record = SECTIONS[section]
    values = record.values(piece, piece.entries(record.keys))
    item = built(piece, partial(record.make, name), values, f"{section.removesuffix('s')} {name}")
    return [] if item is None else [item]


def _read_asset(name: str, piece: Piece, function: Callable[..., Frame] | None) -> list[Item]:
    before, piece.notes.steps = piece.mistakes, 0
    pieces = piece.entries((*ASSET.keys, *OF_PLAN))
    own = {key: pieces.pop(key) for key in OF_PLAN if key in pieces}
    shared = _shared_from(own)
    plan = read_plan(piece, own) if function is None else None
    read = list[str]() if plan is None else inputs_read(plan)
    inputs = NAMES.read(own["inputs"]) if "inputs" in own else read
    for missing in (each for each in read if each not in inputs):
        own["inputs"].fail(f"the plan reads {missing!r}, which is not listed")
    if function is None:
        function = CompiledPlan(tuple(inputs), plan or Frame("?"))
    make = partial(declare.asset, function, name=name)
    made = built(piece, make, ASSET.values(piece, pieces), f"asset {name}")
    # A Python parameter needs a valid identifier; here an input may have any name.
    made = [replace(made, inputs=tuple(inputs))] if piece.mistakes == before else []
    return made if shared is None else [shared, *made]


def _shared_from(own: dict[str, Piece]) -> SharedDataset | None:
    """Read `from: {dataset: …}`, and leave the name of the input in its place."""
    if not isinstance(getattr(own.get("from"), "value", None), dict):
        return None
    shared: SharedDataset | None = _SHARED_FROM.read(own["from"])
    own["from"] = replace(own["from"], value="?" if shared is None else shared.name)
    return shared


# ---- schema ----------------------------------------------------------------------------------


def schemas() -> dict[str, Json]:
    """Describe the declarations of each section."""
    described = {section: record.schema() for section, record in SECTIONS.items()}
    described["assets"]["properties"] |= PLAN_SCHEMA | {"inputs": NAMES.schema()}
    described["assets"]["required"] = ["from"]
    return described
