"""The verbs of a YAML pipeline and their keys; docs/reference/yaml.md documents them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tallyman.control.compile.yaml_loader import Items
from tallyman.control.compile.yaml_piece import (
    YamlPiece,
    condition,
    expression,
    expressions,
    listed_expressions,
    names,
    number,
    text,
    truth,
)
from tallyman.control.compile.yaml_steps import (
    REFERENCE,
    Key,
    Verb,
    YamlReference,
    YamlStep,
    read_keys,
    read_reference,
    read_steps,
    reference_of,
)
from tallyman.domain.definition.frame import Frame


def steps(piece: YamlPiece, start: str) -> tuple[YamlStep, ...]:
    return read_steps(piece, start, VERBS)


# ---- values of some verbs ----------------------------------------------------------------------


def _reference(piece: YamlPiece) -> YamlReference | None:
    return read_reference(piece, VERBS)


def _on(piece: YamlPiece) -> str | list[str] | None:
    """Read equalities as text, or a list of column names that both sides have."""
    return names(piece) if isinstance(piece.node, Items) else text(piece)


def _lookups(piece: YamlPiece) -> dict[str, tuple[YamlReference, object]] | None:
    return piece.each(_lookup, "aliases and the inputs they stand for")


def _lookup(piece: YamlPiece) -> tuple[YamlReference, object] | None:
    pieces = piece.entries((*REFERENCE, "on"))
    found = reference_of(piece, pieces, VERBS)
    on = _on(pieces["on"]) if "on" in pieces else piece.fail("'on' is missing")
    return None if found is None or on is None else (found, on)


def _aggregates(piece: YamlPiece, taken: Sequence[str]) -> dict[str, str] | None:
    """Read aggregates; Frame takes them as keywords, so its own parameter names are not
    available."""
    read = expressions(piece)
    for name in (name for name in read or () if name in taken):
        piece.fail(f"a column cannot be named {name!r} here; rename it afterwards")
    return read


def _groups(piece: YamlPiece) -> dict[str, object]:
    of_group = partial(_aggregates, taken=("name", "self"))
    keys = {"by": Key(names, required=True), "set": Key(of_group, required=True)}
    return read_keys(piece, piece.entries(keys), keys)


# ---- adapters to Frame -------------------------------------------------------------------------


def _select(frame: Frame, columns: Sequence[str], name: str | None = None) -> Frame:
    return frame.select(*columns, name=name)


def _drop(frame: Frame, columns: Sequence[str], name: str | None = None) -> Frame:
    return frame.drop(*columns, name=name)


def _group_by(
    frame: Frame, by: Sequence[str], agg: Mapping[str, str], name: str | None = None
) -> Frame:
    return frame.groupBy(*by).agg(name=name, **agg)


def _aggregate(
    frame: Frame, by: Sequence[str], aggregates: Mapping[str, str], **given: object
) -> Frame:
    return frame.aggregate(by, **given, **aggregates)  # type: ignore[arg-type]


_NAME = {"name": Key(text)}
_NUMBERED = {"name": Key(text), "seq": Key(number)}
_WITH = {"with": Key(_reference, "other", required=True)}
_GROUPED = partial(_aggregates, taken=("name", "self"))
_ADDED = partial(_aggregates, taken=("by", "name", "self", "seq", "where"))

VERBS: Mapping[str, Verb] = {
    "select": Verb(
        {"columns": Key(listed_expressions, required=True), **_NAME}, "columns", _select
    ),
    "drop": Verb({"columns": Key(names, required=True), **_NAME}, "columns", _drop),
    "withColumn": Verb(
        {"columns": Key(expressions, required=True), **_NAME}, "columns", Frame.withColumns
    ),
    "withColumnRenamed": Verb(
        {"existing": Key(text, required=True), "new": Key(text, required=True), **_NAME}
    ),
    "filter": Verb(
        {"where": Key(expression, "condition", required=True), "reason": Key(text), **_NAME},
        "where",
    ),
    "expect": Verb(
        {
            "rule": Key(text, required=True),
            "that": Key(expression, "condition", required=True),
            "code": Key(text),
            "severity": Key(text),
            **_NAME,
        }
    ),
    "join": Verb(
        {
            **_WITH,
            "on": Key(_on, required=True),
            "how": Key(text),
            "unmatched": Key(text),
            "fanout": Key(text),
            "max_unmatched": Key(text),
            **_NAME,
        }
    ),
    "groupBy": Verb(
        {"by": Key(names, required=True), "agg": Key(_GROUPED, required=True), **_NAME},
        call=_group_by,
    ),
    "explode": Verb(
        {"column": Key(text, required=True), "alias": Key(text), "outer": Key(truth), **_NAME},
        "column",
    ),
    "union": Verb({**_WITH, **_NAME}, "with"),
    "unionByName": Verb({**_WITH, **_NAME}, "with"),
    "dropDuplicates": Verb({"subset": Key(names), **_NAME}, "subset"),
    "update": Verb(
        {
            "set": Key(expressions, required=True),
            "where": Key(condition),
            "join": Key(_lookups),
            **_NUMBERED,
        }
    ),
    "delete": Verb({"where": Key(condition), **_NUMBERED}, "where"),
    "aggregate": Verb(
        {
            "by": Key(names, required=True),
            "set": Key(_ADDED, "aggregates", required=True),
            "where": Key(condition),
            **_NUMBERED,
        },
        call=_aggregate,
    ),
    "append": Verb(
        {
            "from": Key(_reference, "source", required=True),
            "where": Key(condition),
            "aggregate": Key(_groups),
            **_NUMBERED,
        }
    ),
    "output": Verb(
        {
            "path": Key(text, required=True),
            "columns": Key(names),
            "include_deleted": Key(truth),
            "format": Key(text),
            "register_as": Key(text),
            **_NUMBERED,
        },
        "path",
    ),
}
