"""Steps and plans in the compiled form: every field of every kind of step, and its limits.

A plan is read through the verbs of a Frame, so a document is checked as a written pipeline is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tallyman.domain.compiled.kinds import (
    FlagKind,
    FormShape,
    FormWriting,
    Json,
    ListKind,
    Misshapen,
    PairsKind,
    SqlKind,
    TextKind,
    WholeKind,
    checked_text,
    expected,
    object_schema,
    read_fields,
)
from tallyman.domain.definition import step as steps
from tallyman.domain.definition import working_step as working
from tallyman.domain.definition.arguments import (
    OUTPUT_FORMATS,
    aggregates_of,
    condition,
    group,
    step_name,
    step_number,
)
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import next_number
from tallyman.domain.definition.step_facts import Lookup, Step
from tallyman.errors import TallymanError
from tallyman.errors.wording import nearest

MOST_STEPS = 500
"""The most steps of one asset, those of its references included; Spark plans all of them at
once."""
DEEPEST = 20
"""The most plans within each other: a join in a join in a join."""

TEXT, SQL, FLAG = TextKind(), SqlKind(), FlagKind()
NAMES = ListKind(TEXT)
COMMON = {"name": TEXT}
NUMBERED = {"name": TEXT, "seq": WholeKind(1)}
PLAN_REF = {"$ref": "#/$defs/plan"}


@dataclass(frozen=True, slots=True)
class PlanKind:
    """An input and the steps on it."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return _write_plan(value, writing)

    def read(self, value: Json, where: str) -> Frame:
        return _read_plan(value, where)

    def schema(self) -> dict[str, Json]:
        return PLAN_REF


@dataclass(frozen=True, slots=True)
class OnKind:
    """A join's condition: equalities as text, or columns that both sides have."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        if isinstance(value, (list, tuple)):
            return [_on_text(each, writing) for each in value]
        return _on_text(value, writing)

    def read(self, value: Json, where: str) -> Any:
        if isinstance(value, list):
            return [checked_text(each, f"{where}[{n}]") for n, each in enumerate(value)]
        return checked_text(value, where)

    def schema(self) -> dict[str, Json]:
        return {"oneOf": [{"type": "string"}, NAMES.schema()]}


def _on_text(value: object, writing: FormWriting) -> str:
    """Write a condition as the engine reads pairs of names from it: `a = b AND c = d`."""
    if not isinstance(value, str):
        value = writing.to_sql(value, writing.where, named=False)
        value = value.replace("(", "").replace(")", "")
        if "=" not in value:  # a text without one is a name
            advice = "compute with withColumn first"
            raise Misshapen(writing.where, f"join on equality of columns, not {value!r}; {advice}")
    return checked_text(value, writing.where)


@dataclass(frozen=True, slots=True)
class LookupsKind:
    """References of an update, each with its alias."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return [
            {
                "alias": each.alias,
                "other": PLAN.write(each.other, writing),
                "on": OnKind().write(each.on, writing),
            }
            for each in value
        ]

    def read(self, value: Json, where: str) -> tuple[Lookup, ...]:
        if not isinstance(value, list):
            raise expected("a list", value, where)
        kinds = {"alias": TEXT, "other": PLAN, "on": OnKind()}
        given = [read_fields(e, kinds, kinds, f"{where}[{n}]") for n, e in enumerate(value)]
        if len({each["alias"] for each in given}) != len(given):
            raise Misshapen(where, "two references have the same alias")
        return tuple(Lookup(**each) for each in given)

    def schema(self) -> dict[str, Json]:
        one = {"alias": TEXT.schema(), "other": PLAN_REF, "on": OnKind().schema()}
        item = {"type": "object", "properties": one, "additionalProperties": False}
        return {"type": "array", "items": item | {"required": list(one)}}


PLAN, PAIRS = PlanKind(), PairsKind()


@dataclass(frozen=True, slots=True)
class StepKind:
    """One kind of step: its fields, and how it is added to a Frame."""

    shape: FormShape
    add: Callable[..., Frame]


def _kind(made: type[Step], fields: Mapping[str, Any], add: Callable[..., Frame]) -> StepKind:
    return StepKind(FormShape(made, fields, optional=("subset",)), add)


def _added(frame: Frame, step: Step, name: str | None, seq: int | None = None) -> Frame:
    named = replace(step, name=step_name(name), seq=step_number(seq))
    return Frame(frame.input, named, frame)


def _group_by(
    frame: Frame,
    by: tuple[str, ...],
    aggregates: tuple[tuple[str, str], ...],
    name: str | None = None,
) -> Frame:
    # Not by agg(): its keywords cannot be any name. An empty list of columns makes one group.
    step = steps.GroupBy(by=by, aggregates=aggregates_of(dict(aggregates)))
    return _added(frame, step, name)


def _aggregate(
    frame: Frame,
    by: tuple[str, ...],
    aggregates: tuple[tuple[str, str], ...],
    where: str | None = None,
    name: str | None = None,
    seq: int | None = None,
) -> Frame:
    made = aggregates_of(dict(aggregates))
    step = working.Aggregate(by=group(by), aggregates=made, where=condition(where))
    return _added(frame, step, name, seq)


def _union(frame: Frame, other: Frame, by_name: bool, name: str | None = None) -> Frame:
    return frame.unionByName(other, name=name) if by_name else frame.union(other, name=name)


def _update(
    frame: Frame,
    set: tuple[tuple[str, str], ...],
    join: tuple[Lookup, ...] = (),
    **given: Any,
) -> Frame:
    references = {each.alias: (each.other, each.on) for each in join}
    return frame.update(dict(set), join=references, **given)


def _select(frame: Frame, columns: tuple[str, ...], name: str | None = None) -> Frame:
    return frame.select(*columns, name=name)


def _drop(frame: Frame, columns: tuple[str, ...], name: str | None = None) -> Frame:
    return frame.drop(*columns, name=name)


def _with_columns(
    frame: Frame, columns: tuple[tuple[str, str], ...], name: str | None = None
) -> Frame:
    return frame.withColumns(dict(columns), name=name)


def _rename(frame: Frame, old: str, new: str, name: str | None = None) -> Frame:
    return frame.withColumnRenamed(old, new, name=name)


def _filter(frame: Frame, predicate: str, **given: Any) -> Frame:
    return frame.filter(predicate, **given)


def _expect(frame: Frame, rule: str, predicate: str, **given: Any) -> Frame:
    return frame.expect(rule, predicate, **given)


def _warn(frame: Frame, rule: str, predicate: str, name: str | None = None) -> Frame:
    return frame.expect(rule, predicate, severity="warn", name=name)


def _append(frame: Frame, other: Frame, **given: Any) -> Frame:
    return frame.append(other, **given)


_EXPECT = {"rule": TEXT, "predicate": SQL, "code": TEXT, "severity": TextKind(("reject", "fail"))}
_JOIN = {
    "other": PLAN,
    "on": OnKind(),
    "how": TextKind(("inner", "left")),
    "unmatched": TextKind(("error", "filter", "keep")),
    "fanout": TextKind(("error", "expand")),
    "max_unmatched": TextKind(pattern="^([0-9]+|[0-9]+([.][0-9]+)?%)$"),
}
_OUTPUT = {
    "path": TEXT,
    "columns": NAMES,
    "include_deleted": FLAG,
    "format": TextKind(tuple(dict.fromkeys(OUTPUT_FORMATS.values()))),
    "register_as": TEXT,
}
_KINDS = (
    _kind(steps.Select, {"columns": ListKind(SqlKind(named=True), least=1), **COMMON}, _select),
    _kind(steps.Drop, {"columns": NAMES, **COMMON}, _drop),
    _kind(steps.WithColumns, {"columns": PAIRS, **COMMON}, _with_columns),
    _kind(steps.Rename, {"old": TEXT, "new": TEXT, **COMMON}, _rename),
    _kind(steps.Filter, {"predicate": SQL, "reason": TEXT, **COMMON}, _filter),
    _kind(steps.Expect, {**_EXPECT, **COMMON}, _expect),
    _kind(steps.Warn, {"rule": TEXT, "predicate": SQL, **COMMON}, _warn),
    _kind(steps.Join, {**_JOIN, **COMMON}, Frame.join),
    _kind(steps.GroupBy, {"by": NAMES, "aggregates": PAIRS, **COMMON}, _group_by),
    _kind(steps.Explode, {"column": TEXT, "alias": TEXT, "outer": FLAG, **COMMON}, Frame.explode),
    _kind(steps.Union, {"other": PLAN, "by_name": FLAG, **COMMON}, _union),
    _kind(steps.DropDuplicates, {"subset": NAMES, **COMMON}, Frame.dropDuplicates),
    _kind(working.Update, {"set": PAIRS, "where": SQL, "join": LookupsKind(), **NUMBERED}, _update),
    _kind(working.Delete, {"where": SQL, **NUMBERED}, Frame.delete),
    _kind(
        working.Aggregate,
        {"by": ListKind(TEXT, least=1), "aggregates": PAIRS, "where": SQL, **NUMBERED},
        _aggregate,
    ),
    _kind(working.Append, {"other": PLAN, **NUMBERED}, _append),
    _kind(working.Output, {**_OUTPUT, **NUMBERED}, Frame.output),
)
STEPS: Mapping[str, StepKind] = {each.shape.made.kind: each for each in _KINDS}


# ---- plans -----------------------------------------------------------------------------------


def _write_plan(frame: Frame, writing: FormWriting) -> dict[str, Json]:
    if writing.depth > DEEPEST:
        raise Misshapen(writing.where, f"more than {DEEPEST} plans are within each other")
    inner = replace(writing, depth=writing.depth + 1)
    written: list[Json] = []
    last = 0
    for step in frame.steps():
        writing.written.steps += 1
        if writing.written.steps > MOST_STEPS:
            asset = writing.where.partition(",")[0]
            raise Misshapen(asset, f"it has more than {MOST_STEPS} steps; make it several assets")
        usual = next_number(last)
        seq = usual if step.seq is None else step.seq
        here = f"{writing.where}, step {step.name or f'{seq}_{step.kind}'}"
        made = {"kind": step.kind} | STEPS[step.kind].shape.write(step, inner.at(here))
        if seq == usual:
            made.pop("seq", None)  # it does not matter who gave the number that comes next anyway
        written.append(made)
        last = max(last, seq)
    return {"input": checked_text(frame.input, writing.where), "steps": written}


def _read_plan(value: Json, where: str) -> Frame:
    found = read_fields(value, {"input": TEXT, "steps": _StepsKind()}, ("input", "steps"), where)
    frame = Frame(found["input"])
    for number, step in enumerate(found["steps"]):
        frame = _read_step(frame, step, f"{where}.steps[{number}]")
    return frame


def _read_step(frame: Frame, value: Json, where: str) -> Frame:
    if not isinstance(value, dict):
        raise expected("a step", value, where)
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in STEPS:
        near = nearest(kind, STEPS) if isinstance(kind, str) else None
        raise Misshapen(f"{where}.kind", "unknown kind of step" if kind else "it is missing", near)
    rest = {name: each for name, each in value.items() if name != "kind"}
    given = STEPS[kind].shape.read(rest, where)
    try:
        return STEPS[kind].add(frame, **given)
    except TallymanError as error:
        raise Misshapen(where, str(error)) from None


@dataclass(frozen=True, slots=True)
class _StepsKind:
    """The list of steps; each is read on the Frame that the earlier ones make."""

    def write(self, value: Any, writing: FormWriting) -> Json:
        return value

    def read(self, value: Json, where: str) -> list[Json]:
        if not isinstance(value, list):
            raise expected("a list", value, where)
        if len(value) > MOST_STEPS:
            raise Misshapen(where, f"there are more than {MOST_STEPS} steps")
        return value

    def schema(self) -> dict[str, Json]:
        return {
            "type": "array",
            "maxItems": MOST_STEPS,
            "items": {"oneOf": [_step_schema(kind) for kind in STEPS]},
        }


def _step_schema(kind: str) -> dict[str, Json]:
    described = STEPS[kind].shape.schema()
    properties = {"kind": {"const": kind}, **described["properties"]}
    return described | {"properties": properties, "required": ["kind", *described["required"]]}


def plan_schema() -> dict[str, Json]:
    """Describe a plan with every kind of step."""
    return object_schema({"input": TEXT, "steps": _StepsKind()}, ("input", "steps"))
