"""The verbs of a plan: the keys of each, how it is added to a Frame, and written from its step.

A plan is read through the verbs of a Frame, so a document is checked as a written pipeline is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tallyman.domain.compiled.kinds import (
    CONDITION,
    FLAG,
    NAMED_SQL,
    NAMES,
    SQL,
    TEXT,
    AnyKind,
    Grammar,
    Key,
    Listed,
    Misshapen,
    Ordered,
    PlanWriting,
    built,
    object_schema,
    one_of,
    text_like,
    whole,
)
from tallyman.domain.compiled.piece import ALIKE, Json, Piece
from tallyman.domain.definition import step as steps
from tallyman.domain.definition import working_step as working
from tallyman.domain.definition.arguments import (
    ALTERNATIVES,
    OUTPUT_FORMATS,
)
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import next_number, numbers
from tallyman.domain.definition.step_facts import Step
from tallyman.errors import UsageError
from tallyman.errors.wording import nearest

MOST_STEPS = 500
"""The most steps of one asset, those of its references included; Spark plans all of them at
once."""
DEEPEST = 20
"""The most plans within each other: a join in a join in a join."""
TOO_MANY = f"more than {MOST_STEPS} steps; make it several assets"
TOO_DEEP = f"more than {DEEPEST} plans are within each other"
PLAN_KEYS = ("from", "where", "steps")
PLAN_REF, STEPS_REF = {"$ref": "#/$defs/plan"}, {"$ref": "#/$defs/steps"}
PLAN_SCHEMA = {"from": TEXT.schema(), "steps": STEPS_REF}


class _Plan:
    """Another input: its name, or `from` with either `where` or `steps`."""

    def read(self, piece: Piece) -> Frame | None:
        if isinstance(piece.value, str):
            return read_plan(piece, {"from": piece})
        return read_plan(piece, piece.entries(PLAN_KEYS))

    def write(self, value: Any, writing: PlanWriting) -> Json:
        return write_plan(value, writing)

    def schema(self) -> dict[str, Json]:
        return PLAN_REF


class _On:
    """A join's condition: equalities as text, or a list of columns that both sides have."""

    def read(self, piece: Piece) -> Any:
        return (NAMES if isinstance(piece.value, list) else TEXT).read(piece)

    def write(self, value: Any, writing: PlanWriting) -> Json:
        if isinstance(value, (list, tuple)):
            return [_on_text(each, writing) for each in value]
        return _on_text(value, writing)

    def schema(self) -> dict[str, Json]:
        return {"oneOf": [TEXT.schema(), NAMES.schema()]}


def _on_text(value: object, writing: PlanWriting) -> str:
    """Write a condition as the engine reads pairs of names from it: `a = b AND c = d`."""
    if not isinstance(value, str):
        value = writing.to_sql(value, writing.where, named=False)
        value = value.replace("(", "").replace(")", "")
        if "=" not in value:  # a text without one is a name
            advice = "compute with withColumn first"
            raise Misshapen(writing.where, f"join on equality of columns, not {value!r}; {advice}")
    return str(TEXT.write(value, writing))


class _Lookup:
    """An input in which rows are looked up, with the condition."""

    def read(self, piece: Piece) -> tuple[Frame | None, Any]:
        pieces = piece.entries((*PLAN_KEYS, "on"))
        on = ON.read(pieces["on"]) if "on" in pieces else piece.fail("'on' is missing")
        return read_plan(piece, pieces), on

    def write(self, value: Any, writing: PlanWriting) -> Json:
        return {**PLAN.write(value.other, writing), "on": ON.write(value.on, writing)}

    def schema(self) -> dict[str, Json]:
        return object_schema({**PLAN_SCHEMA, "on": ON.schema()}, ["from", "on"])


@dataclass(frozen=True, slots=True)
class _Lookups(Ordered):
    def write(self, value: Any, writing: PlanWriting) -> Json:
        return Ordered.write(self, [(each.alias, each) for each in value], writing)


PLAN, ON = _Plan(), _On()

# ---- how a verb is added to a Frame, where its method takes other arguments -------------------


def _select(frame: Frame, columns: Sequence[str], **given: Any) -> Frame:
    return frame.select(*columns, **given)


def _drop(frame: Frame, columns: Sequence[str], **given: Any) -> Frame:
    return frame.drop(*columns, **given)


# ---- the verbs -------------------------------------------------------------------------------


def _verb(
    made: type[Step],
    keys: Mapping[str, Key],
    make: Callable[..., Frame],
    short: str | None = None,
) -> Grammar:
    """Describe a verb; every one has a name, and on a working set a number."""
    numbered = {"seq": Key(whole(1))} if made.in_place else {}
    return Grammar(made, {**keys, "name": Key(TEXT), **numbered}, make, short)


def _must(kind: AnyKind, to: str = "", of: str = "") -> Key:
    return Key(kind, True, to, of)


_PAIRS, _WHERE = Ordered(SQL), Key(CONDITION)
_BY, _AGGREGATES = _must(NAMES), _must(_PAIRS, "aggregates", "aggregates")
_WITH = {"with": _must(PLAN, "other", "other")}
_SELECTED = Listed(NAMED_SQL, least=1)

VERBS: Mapping[str, Grammar] = {
    "select": _verb(steps.Select, {"columns": _must(_SELECTED)}, _select, "columns"),
    "drop": _verb(steps.Drop, {"columns": _must(NAMES)}, _drop, "columns"),
    "withColumn": _verb(
        steps.WithColumns, {"columns": _must(_PAIRS)}, Frame.withColumns, "columns"
    ),
    "withColumnRenamed": _verb(
        steps.Rename,
        {"existing": _must(TEXT, of="old"), "new": _must(TEXT)},
        Frame.withColumnRenamed,
    ),
    "filter": _verb(
        steps.Filter,
        {"where": _must(SQL, "condition", "predicate"), "reason": Key(TEXT)},
        Frame.filter,
        "where",
    ),
    "expect": _verb(
        steps.Expect,
        {
            "rule": _must(TEXT),
            "that": _must(SQL, "condition", "predicate"),
            "code": Key(TEXT),
            "severity": Key(one_of("warn", "reject", "fail")),
        },
        Frame.expect,
    ),
    "join": _verb(
        steps.Join,
        {
            **_WITH,
            "on": _must(ON),
            "how": Key(one_of("inner", "left")),
            "unmatched": Key(one_of("error", "filter", "keep")),
            "fanout": Key(one_of("error", "expand")),
            "max_unmatched": Key(text_like("^([0-9]+|[0-9]+([.][0-9]+)?%)$")),
        },
        Frame.join,
    ),
    "groupBy": _verb(steps.GroupBy, {"by": _BY, "agg": _AGGREGATES}, Frame._group),
    "explode": _verb(
        steps.Explode,
        {"column": _must(TEXT), "alias": Key(TEXT), "outer": Key(FLAG)},
        Frame.explode,
        "column",
    ),
    "union": _verb(steps.Union, _WITH, Frame.union, "with"),
    "unionByName": _verb(steps.Union, _WITH, Frame.unionByName, "with"),
    "dropDuplicates": _verb(
        steps.DropDuplicates, {"subset": Key(NAMES)}, Frame.dropDuplicates, "subset"
    ),
    "update": _verb(
        working.Update,
        {
            "set": _must(_PAIRS),
            "where": _WHERE,
            "join": Key(_Lookups(_Lookup(), "aliases and the inputs they stand for")),
        },
        Frame.update,
    ),
    "delete": _verb(working.Delete, {"where": _WHERE}, Frame.delete, "where"),
    "aggregate": _verb(
        working.Aggregate, {"by": _BY, "set": _AGGREGATES, "where": _WHERE}, Frame._aggregate
    ),
    "append": _verb(
        working.Append,
        {
            "from": _must(PLAN, "source", "other"),
            "where": Key(CONDITION, of=None),
            "aggregate": Key(Grammar(dict, {"by": _BY, "set": _must(_PAIRS)}), of=None),
        },
        Frame.append,
    ),
    "output": _verb(
        working.Output,
        {
            "path": _must(TEXT),
            "columns": Key(NAMES),
            "include_deleted": Key(FLAG),
            "format": Key(one_of(*dict.fromkeys(OUTPUT_FORMATS.values()))),
            "register_as": Key(TEXT),
        },
        Frame.output,
        "path",
    ),
}


def kind_of(step: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a written step, as in its id, and its values."""
    [(verb, values)] = step.items()
    return "warn" if values.get("severity") == "warn" else VERBS[verb].made.kind, values


# ---- plans -----------------------------------------------------------------------------------


def write_plan(frame: Frame, writing: PlanWriting) -> dict[str, Json]:
    if writing.where.count(", step ") > DEEPEST:
        raise Misshapen(writing.where, TOO_DEEP)
    written: list[Json] = []
    last = 0
    for step in frame.steps():
        writing.written.steps += 1
        if writing.written.steps > MOST_STEPS:
            raise Misshapen(writing.where.partition(",")[0], f"it has {TOO_MANY}")
        usual = next_number(last)
        last = usual if step.seq is None else max(last, step.seq)
        here = writing.at(f"step {step.name or f'{last}_{step.kind}'}")
        # It does not matter who gave the number that comes next anyway.
        own = replace(step, seq=None) if step.seq == usual else step
        written.append({step.verb: VERBS[step.verb].write(own, here)})
    named = {"from": TEXT.write(frame.input, writing)}
    return named | ({"steps": written} if written else {})


def read_plan(piece: Piece, pieces: Mapping[str, Piece]) -> Frame | None:
    """Read an input and the steps on it; Frame's own checks run on each step."""
    if piece.path.count(".steps[") > DEEPEST:
        return piece.fail(TOO_DEEP)
    name = pieces["from"].text() if "from" in pieces else piece.fail("'from' is missing")
    frame = Frame(name or "?")
    if "where" in pieces and "steps" in pieces:
        advice = "together with steps, write the condition as a step: filter: {where: …}"
        pieces["where"].fail(advice)
    if "where" in pieces and (where := pieces["where"].condition()):
        frame = frame.filter(where)
    if "steps" in pieces:
        frame = _read_steps(pieces["steps"], frame)
    return None if name is None else frame


def _read_steps(piece: Piece, frame: Frame) -> Frame:
    before, items = piece.mistakes, piece.items()
    piece.notes.steps += len(items)
    if piece.notes.steps > MOST_STEPS:
        piece.fail(f"there are {TOO_MANY}")
        return frame
    for item in items:
        frame = _read_step(item, frame) or frame
    if piece.mistakes == before:
        try:
            numbers(frame)
        except UsageError as error:
            piece.fail(str(error))
    return frame


def _read_step(piece: Piece, frame: Frame) -> Frame | None:
    if not isinstance(piece.value, dict) or len(piece.value) != 1:
        return piece.fail(f"expected one verb and its values, found {_shown(piece)}")
    for name, given in piece.entries().items():
        if name in VERBS:
            verb = VERBS[name]
            values = verb.values(given, verb.pieces(given))
            return built(given, partial(verb.make, frame), values)
        if name in ALTERNATIVES:
            message = f"{name} cannot be accounted for row by row. {ALTERNATIVES[name]}"
            return given.fail(message)
        return given.fail("unknown step", nearest(name, VERBS, ALIKE))
    return None


def _shown(piece: Piece) -> str:
    if isinstance(piece.value, dict) and piece.value:
        return "the keys " + ", ".join(map(repr, map(str, piece.value)))
    return piece.found()


def schemas() -> dict[str, Json]:
    """Describe a plan and a list of steps with every verb."""
    verbs = [object_schema({name: verb.schema()}, [name]) for name, verb in VERBS.items()]
    listed = {"type": "array", "maxItems": MOST_STEPS, "items": {"oneOf": verbs}}
    return {"plan": object_schema(PLAN_SCHEMA, ["from"]), "steps": listed}
