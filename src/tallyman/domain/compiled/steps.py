"""The verbs of a plan: the keys of each, how it is added to a Frame, and written from its step.

A plan is read through the verbs of a Frame, so a document is checked as a written pipeline is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Key,
    Listed,
    Misshapen,
    Ordered,
    Record,
    Writing,
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
    aggregates_of,
    condition,
    group,
    step_name,
    step_number,
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

    def write(self, value: Any, writing: Writing) -> Json:
        return write_plan(value, writing)

    def schema(self) -> dict[str, Json]:
        return PLAN_REF


class _On:
    """A join's condition: equalities as text, or a list of columns that both sides have."""

    def read(self, piece: Piece) -> Any:
        return (NAMES if isinstance(piece.value, list) else TEXT).read(piece)

    def write(self, value: Any, writing: Writing) -> Json:
        if isinstance(value, (list, tuple)):
            return [_on_text(each, writing) for each in value]
        return _on_text(value, writing)

    def schema(self) -> dict[str, Json]:
        return {"oneOf": [TEXT.schema(), NAMES.schema()]}


def _on_text(value: object, writing: Writing) -> str:
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

    def write(self, value: Any, writing: Writing) -> Json:
        return {**PLAN.write(value.other, writing), "on": ON.write(value.on, writing)}

    def schema(self) -> dict[str, Json]:
        return object_schema({**PLAN_SCHEMA, "on": ON.schema()}, ["from", "on"])


@dataclass(frozen=True, slots=True)
class _Lookups(Ordered):
    def write(self, value: Any, writing: Writing) -> Json:
        return Ordered.write(self, [(each.alias, each) for each in value], writing)


PLAN, ON = _Plan(), _On()

# ---- how a verb is added to a Frame, where its method takes other arguments -------------------


def _select(frame: Frame, columns: Sequence[str], **given: Any) -> Frame:
    return frame.select(*columns, **given)


def _drop(frame: Frame, columns: Sequence[str], **given: Any) -> Frame:
    return frame.drop(*columns, **given)


def _group_by(
    frame: Frame, by: Sequence[str], aggregates: Mapping[str, str], name: str | None = None
) -> Frame:
    # Not by agg(): its keywords cannot be any name. An empty list of columns makes one group.
    made = aggregates_of(aggregates)
    return _added(frame, steps.GroupBy(by=tuple(by), aggregates=made, name=step_name(name)))


def _aggregate(
    frame: Frame,
    by: Sequence[str],
    aggregates: Mapping[str, str],
    where: str | None = None,
    name: str | None = None,
    seq: int | None = None,
) -> Frame:
    step = working.Aggregate(
        by=group(by),
        aggregates=aggregates_of(aggregates),
        where=condition(where),
        name=step_name(name),
        seq=step_number(seq),
    )
    return _added(frame, step)


def _added(frame: Frame, step: Step) -> Frame:
    return Frame(frame.input, step, frame)


# ---- the verbs -------------------------------------------------------------------------------

_NAME = {"name": Key(TEXT)}
_NUMBERED = {"name": Key(TEXT), "seq": Key(whole(1))}
_PAIRS = Ordered(SQL)
_WITH = {"with": Key(PLAN, required=True, to="other", of="other")}
_GROUPS = {
    "by": Key(NAMES, required=True),
    "set": Key(_PAIRS, required=True, to="aggregates", of="aggregates"),
}

VERBS: Mapping[str, Record] = {
    "select": Record(
        steps.Select,
        {"columns": Key(Listed(NAMED_SQL, least=1), required=True), **_NAME},
        _select,
        "columns",
    ),
    "drop": Record(steps.Drop, {"columns": Key(NAMES, required=True), **_NAME}, _drop, "columns"),
    "withColumn": Record(
        steps.WithColumns,
        {"columns": Key(_PAIRS, required=True), **_NAME},
        Frame.withColumns,
        "columns",
    ),
    "withColumnRenamed": Record(
        steps.Rename,
        {
            "existing": Key(TEXT, required=True, of="old"),
            "new": Key(TEXT, required=True),
            **_NAME,
        },
        Frame.withColumnRenamed,
    ),
    "filter": Record(
        steps.Filter,
        {
            "where": Key(SQL, required=True, to="condition", of="predicate"),
            "reason": Key(TEXT),
            **_NAME,
        },
        Frame.filter,
        "where",
    ),
    "expect": Record(
        steps.Expect,
        {
            "rule": Key(TEXT, required=True),
            "that": Key(SQL, required=True, to="condition", of="predicate"),
            "code": Key(TEXT),
            "severity": Key(one_of("warn", "reject", "fail")),
            **_NAME,
        },
        Frame.expect,
    ),
    "join": Record(
        steps.Join,
        {
            **_WITH,
            "on": Key(ON, required=True),
            "how": Key(one_of("inner", "left")),
            "unmatched": Key(one_of("error", "filter", "keep")),
            "fanout": Key(one_of("error", "expand")),
            "max_unmatched": Key(text_like("^([0-9]+|[0-9]+([.][0-9]+)?%)$")),
            **_NAME,
        },
        Frame.join,
    ),
    "groupBy": Record(
        steps.GroupBy,
        {
            "by": Key(NAMES, required=True),
            "agg": Key(_PAIRS, required=True, to="aggregates", of="aggregates"),
            **_NAME,
        },
        _group_by,
    ),
    "explode": Record(
        steps.Explode,
        {"column": Key(TEXT, required=True), "alias": Key(TEXT), "outer": Key(FLAG), **_NAME},
        Frame.explode,
        "column",
    ),
    "union": Record(steps.Union, {**_WITH, **_NAME}, Frame.union, "with"),
    "unionByName": Record(steps.Union, {**_WITH, **_NAME}, Frame.unionByName, "with"),
    "dropDuplicates": Record(
        steps.DropDuplicates, {"subset": Key(NAMES), **_NAME}, Frame.dropDuplicates, "subset"
    ),
    "update": Record(
        working.Update,
        {
            "set": Key(_PAIRS, required=True),
            "where": Key(CONDITION),
            "join": Key(_Lookups(_Lookup(), "aliases and the inputs they stand for")),
            **_NUMBERED,
        },
        Frame.update,
    ),
    "delete": Record(working.Delete, {"where": Key(CONDITION), **_NUMBERED}, Frame.delete, "where"),
    "aggregate": Record(
        working.Aggregate, {**_GROUPS, "where": Key(CONDITION), **_NUMBERED}, _aggregate
    ),
    "append": Record(
        working.Append,
        {
            "from": Key(PLAN, required=True, to="source", of="other"),
            "where": Key(CONDITION, of=None),
            "aggregate": Key(
                Record(
                    dict,
                    {"by": Key(NAMES, required=True), "set": Key(_PAIRS, required=True)},
                ),
                of=None,
            ),
            **_NUMBERED,
        },
        Frame.append,
    ),
    "output": Record(
        working.Output,
        {
            "path": Key(TEXT, required=True),
            "columns": Key(NAMES),
            "include_deleted": Key(FLAG),
            "format": Key(one_of(*dict.fromkeys(OUTPUT_FORMATS.values()))),
            "register_as": Key(TEXT),
            **_NUMBERED,
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


def write_plan(frame: Frame, writing: Writing) -> dict[str, Json]:
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
