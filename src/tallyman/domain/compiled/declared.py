"""Sources, tables, shared datasets and assets in the compiled form, read through the functions that
declare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from tallyman.domain.account.fate import Evidence
from tallyman.domain.compiled.compiled_plan import CompiledPlan
from tallyman.domain.compiled.kinds import (
    FlagKind,
    FormShape,
    FormWriting,
    Json,
    ListKind,
    Misshapen,
    NumberKind,
    PairsKind,
    SqlKind,
    TextKind,
    TextsKind,
    WholeKind,
    checked_text,
    expected,
    object_schema,
    read_fields,
)
from tallyman.domain.compiled.steps import NAMES, PLAN, TEXT
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames
from tallyman.domain.pipeline.approval import Approval, approval
from tallyman.domain.pipeline.declare import (
    FORMATS,
    STRATEGIES,
    TRACES,
    asset,
    dataset,
    source,
    table,
)
from tallyman.domain.pipeline.partition import Partitioning, daily, partitions
from tallyman.domain.pipeline.pipeline import Asset, SharedDataset, Source
from tallyman.domain.pipeline.threshold import REACTIONS, Thresholds
from tallyman.domain.pipeline.trigger import EVENT, MANUAL, MOST_PRIORITY, Schedule, schedule
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.version.table import Table
from tallyman.errors import TallymanError

SOURCE = FormShape(
    Source,
    {
        "path": TEXT,
        "format": TextKind(FORMATS),
        "schema": TEXT,
        "key": NAMES,
        "options": TextsKind(),
        "on_empty": TextKind(REACTIONS),
        "on_shrink": TextKind(REACTIONS),
    },
)
REFERENCE = {"to": TEXT, "at_least": WholeKind(), "at_most": WholeKind()}
RULE = {"one_of": ListKind(TEXT, least=1), "min": TEXT, "max": TEXT, "pattern": TEXT}


@dataclass(frozen=True, slots=True)
class ByColumnKind:
    """The requirements of a table, by column."""

    kinds: Mapping[str, Any]
    required: tuple[str, ...] = ()

    def write(self, value: Any, writing: FormWriting) -> Json:
        return value

    def read(self, value: Json, where: str) -> dict[str, Json]:
        if not isinstance(value, dict):
            raise expected("columns and values", value, where)
        return {
            checked_text(name, where): read_fields(
                given, self.kinds, self.required, f"{where}.{name}"
            )
            for name, given in value.items()
        }

    def schema(self) -> dict[str, Json]:
        return {
            "type": "object",
            "additionalProperties": object_schema(self.kinds, self.required),
        }


TABLE: Mapping[str, Any] = {
    "schema": TEXT,
    "key": NAMES,
    "references": ByColumnKind(REFERENCE, ("to",)),
    "rules": ByColumnKind(RULE),
}
TABLE_REQUIRED = ("schema", "key")
SHARED: Mapping[str, Any] = {"dataset": TEXT}


@dataclass(frozen=True, slots=True)
class _Made:
    """An object with fields that one function builds and checks."""

    shape: FormShape

    def write(self, value: Any, writing: FormWriting) -> Json:
        return self.shape.write(value, writing)

    def schema(self) -> dict[str, Json]:
        return self.shape.schema()


_COUNT, _SHARE = WholeKind(), NumberKind()
_THRESHOLDS = FormShape(
    Thresholds,
    {
        "absolute": _COUNT,
        "percentage": _SHARE,
        "window": _COUNT,
        "breaker": _SHARE,
        "on_break": TextKind(("hold",)),
        "on_empty": TextKind(REACTIONS),
        "on_shrink": TextKind(REACTIONS),
        "children_absolute": _COUNT,
        "children_percentage": _SHARE,
        "groups_absolute": _COUNT,
        "groups_percentage": _SHARE,
    },
)


class ThresholdsKind(_Made):
    def read(self, value: Json, where: str) -> Thresholds:
        return _made(where, Thresholds, self.shape.read(value, where))


class ApprovalKind(_Made):
    def read(self, value: Json, where: str) -> Approval:
        return _made(where, approval, self.shape.read(value, where))


@dataclass(frozen=True, slots=True)
class DayKind:
    def write(self, value: Any, writing: FormWriting) -> Json:
        return date.isoformat(value)

    def read(self, value: Json, where: str) -> str:
        return checked_text(value, where)

    def schema(self) -> dict[str, Json]:
        return {"type": "string", "format": "date"}


class PartitioningKind(_Made):
    def read(self, value: Json, where: str) -> Partitioning:
        given = self.shape.read(value, where)
        kind = given.pop("kind")
        return _made(where, daily if kind == "daily" else partitions, given)


@dataclass(frozen=True, slots=True)
class PublishKind:
    """The name of the dataset, or false if outside readers do not see it."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return value

    def read(self, value: Json, where: str) -> str | bool:
        return value if isinstance(value, bool) else checked_text(value, where)

    def schema(self) -> dict[str, Json]:
        return {"type": ["string", "boolean"]}


@dataclass(frozen=True, slots=True)
class TagsKind:
    """Tags have no order; they are written in that of the alphabet."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return sorted(checked_text(each, writing.where) for each in value)

    def read(self, value: Json, where: str) -> tuple[str, ...]:
        found: tuple[str, ...] = NAMES.read(value, where)
        return found

    def schema(self) -> dict[str, Json]:
        return NAMES.schema()


_WORDS = TextKind((MANUAL, EVENT))
_TICKS = FormShape(Schedule, {"cron": TEXT, "timezone": TEXT})


class TriggeredByKind:
    """A word, or a schedule."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        known = _TICKS if isinstance(value, Schedule) else _WORDS
        return known.write(value, writing)

    def read(self, value: Json, where: str) -> str | Schedule:
        if isinstance(value, dict):
            return _made(where, schedule, _TICKS.read(value, where))
        return _WORDS.read(value, where)

    def schema(self) -> dict[str, Json]:
        return {"oneOf": [_WORDS.schema(), _TICKS.schema()]}


class RetryKind(_Made):
    def read(self, value: Json, where: str) -> RetryPolicy:
        return _made(where, RetryPolicy, self.shape.read(value, where))


ASSET = FormShape(
    Asset,
    {
        "key": NAMES,
        "unique": FlagKind(),
        "thresholds": ThresholdsKind(_THRESHOLDS),
        "evidence": TextKind(tuple(Evidence)),
        "tags": TagsKind(),
        "meta": TextsKind(),
        "partitioned_by": PartitioningKind(
            FormShape(
                Partitioning,
                {
                    "column": TEXT,
                    "kind": TextKind(("daily", "strings")),
                    "start": DayKind(),
                    "end": DayKind(),
                    "values": NAMES,
                },
            )
        ),
        "approval": ApprovalKind(
            FormShape(Approval, {"message": TEXT, "when": SqlKind(), "timeout_s": WholeKind(1)})
        ),
        "update_strategy": TextKind(STRATEGIES),
        "unique_key": NAMES,
        "publish": PublishKind(),
        "publish_rejections": TEXT,
        "split": PairsKind(),
        "trace": TextKind(TRACES),
        "trigger": TriggeredByKind(),
        "retry": RetryKind(
            FormShape(
                RetryPolicy,
                {
                    "attempts": WholeKind(1),
                    "timeout_s": WholeKind(1),
                    "backoff_s": WholeKind(),
                    "backoff_cap_s": WholeKind(),
                },
            )
        ),
        "priority": WholeKind(-MOST_PRIORITY),
        "pool": TEXT,
        "max_concurrency": WholeKind(1),
    },
)
ASSET_KINDS: Mapping[str, Any] = {"inputs": NAMES, "plan": PLAN, **ASSET.kinds}
ASSET_REQUIRED = ("inputs", "plan")


# ---- writing ---------------------------------------------------------------------------------


def write_source(item: Source, writing: FormWriting) -> dict[str, Json]:
    return SOURCE.write(item, writing)


def write_table(item: Table, writing: FormWriting) -> dict[str, Json]:
    references = {
        each.column: _given(
            to=f"{each.table}.{each.to}", at_least=each.at_least or None, at_most=each.at_most
        )
        for each in item.references
    }
    rules = {
        each.column: _given(
            one_of=list(each.one_of) or None, min=each.min, max=each.max, pattern=each.pattern
        )
        for each in item.rules
    }
    written: dict[str, Json] = {"schema": item.schema, "key": list(item.key)}
    written |= {"references": references} if references else {}
    return written | ({"rules": rules} if rules else {})


def write_shared(item: SharedDataset) -> dict[str, Json]:
    return {} if item.dataset == item.name else {"dataset": item.dataset}


def _given(**values: Json) -> dict[str, Json]:
    return {name: value for name, value in values.items() if value is not None}


def write_asset(item: Asset, plan: Frame | None, writing: FormWriting) -> dict[str, Json]:
    item = item.written
    if plan is None:
        return {"inputs": list(item.inputs), **ASSET.write(item, writing)}
    written = PLAN.write(plan, writing)
    used = list(dict.fromkeys(frame.input for frame in frames(plan)))
    unused = sorted(set(item.inputs) - set(used))
    rest = ASSET.write(item, writing)
    return {"inputs": [*used, *unused], "plan": written} | rest


# ---- reading ---------------------------------------------------------------------------------


def read_source(name: str, value: Json, where: str) -> Source:
    return _made(where, source, {"name": name, **SOURCE.read(value, where)})


def read_table(name: str, value: Json, where: str) -> Table:
    return _made(where, table, {"name": name, **read_fields(value, TABLE, TABLE_REQUIRED, where)})


def read_shared(name: str, value: Json, where: str) -> SharedDataset:
    given = {"dataset": name, **read_fields(value, SHARED, (), where)}
    return _made(where, dataset, {"name": name, **given})


def read_without_plan(name: str, value: Json, function: Callable[..., Frame], where: str) -> Asset:
    """Read an asset whose plan could not be made: `function` is called in its place."""
    given = read_fields(value, ASSET_KINDS, ("inputs",), where)
    inputs = given.pop("inputs")
    made = _made(where, asset, {"function": function, "name": name, **given})
    return replace(made, inputs=inputs)


def read_asset(name: str, value: Json, where: str) -> Asset:
    given = read_fields(value, ASSET_KINDS, ASSET_REQUIRED, where)
    plan, inputs = given.pop("plan"), given.pop("inputs")
    used = dict.fromkeys(frame.input for frame in frames(plan))
    for missing in (each for each in used if each not in inputs):
        raise Misshapen(f"{where}.inputs", f"the plan reads {missing!r}, which is not listed")
    function = CompiledPlan(inputs, plan)
    made = _made(where, asset, {"function": function, "name": name, **given})
    return replace(made, inputs=inputs)


def _made(where: str, make: Any, given: Mapping[str, Any]) -> Any:
    try:
        return make(**given)
    except TallymanError as error:
        raise Misshapen(where, str(error)) from None
