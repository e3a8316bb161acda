"""Joins followed by their columns: which rows of a reference records met, and the other way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import step_ids
from tallyman.domain.definition.step import (
    Aggregate,
    Append,
    Explode,
    GroupBy,
    Join,
    Rename,
    Step,
    Union,
    Update,
    WithColumns,
)
from tallyman.engine.columns.origin import column_of, only_columns
from tallyman.engine.expressions.columns import text_of
from tallyman.engine.plan import in_place
from tallyman.engine.plan.plain import join_pairs
from tallyman.engine.readback.records import Records


@dataclass(frozen=True)
class JoinLink:
    """One join of a plan, as columns of inputs."""

    step: str
    reference: str
    on: str
    rows: Frame
    """What was looked up, and what it was looked up in."""
    looked_in: Frame
    equalities: object
    left: Mapping[str, tuple[str, ...]] | None
    """By accounted input, the columns that were compared; None if they were computed."""
    right: tuple[str, ...] | None
    before: frozenset[str]
    """The steps that a record meets before this one."""


def links(plan: Frame, known: Mapping[str, Collection[str]]) -> list[JoinLink]:
    """In the order of the steps."""
    names = step_ids(plan)
    found = []
    for node, before in _joins(plan, names):
        for looked_in, on in _looked_in(node.step):
            assert node.parent is not None
            pairs = join_pairs(on, _visible(node.parent, known), _visible(looked_in, known))
            left = [column_of(node.parent, own, known) for own, _ in pairs]
            right = [column_of(looked_in, other, known) for _, other in pairs]
            found.append(
                JoinLink(
                    step=names[id(node)],
                    reference=looked_in.input,
                    on=_shown(on),
                    rows=node.parent,
                    looked_in=looked_in,
                    equalities=on,
                    left=_together(left),
                    right=_right(right, looked_in),
                    before=frozenset(before),
                )
            )
    return found


def _looked_in(step: Step | None) -> list[tuple[Frame, object]]:
    """Each reference of a step, and the equalities by which rows were looked up."""
    if isinstance(step, Join):
        return [(step.other, step.on)]
    if isinstance(step, Update):
        return [(lookup.other, in_place.equalities(lookup)) for lookup in step.join]
    return []


def _joins(frame: Frame, names: Mapping[int, str]) -> Iterator[tuple[Frame, list[str]]]:
    before: list[str] = []
    nodes: list[Frame] = []
    node: Frame | None = frame
    while node is not None and node.parent is not None:
        nodes.append(node)
        node = node.parent
    for one in reversed(nodes):
        if isinstance(one.step, (Union, Append)):
            yield from _joins(one.step.other, names)
        if isinstance(one.step, (Join, Update)):
            yield one, list(before)
        before.append(names.get(id(one), ""))


def _visible(frame: Frame, known: Mapping[str, Collection[str]]) -> list[str]:
    """Names that a step here may use: some of them may be gone again."""
    found = list(known.get(frame.input, ()))
    for step in frame.steps():
        match step:
            case WithColumns():
                found += [name for name, _ in step.columns]
            case Rename():
                found.append(step.new)
            case Explode():
                found.append(step.alias)
            case GroupBy() | Aggregate():
                found += [name for name, _ in step.aggregates]
            case Update():
                found += [name for name, _ in step.set]
            case Join():
                found += _visible(step.other, known)
    return found


def _together(columns: Sequence[Mapping[str, str] | None]) -> dict[str, tuple[str, ...]] | None:
    whole = [found for found in columns if found]
    if len(whole) < len(columns) or not whole:
        return None
    inputs = set(whole[0]).intersection(*whole)
    return {name: tuple(found[name] for found in whole) for name in inputs} or None


def _right(columns: Sequence[Mapping[str, str] | None], looked_in: Frame) -> tuple[str, ...] | None:
    if not only_columns(looked_in) or not all(columns):
        return None
    return tuple(found[looked_in.input] for found in columns if found)


def _shown(on: object) -> str:
    if isinstance(on, (list, tuple)):
        return ", ".join(text_of(one) for one in on)
    return text_of(on)


def matched(
    link: JoinLink,
    hits: Mapping[str, str],
    opened: Callable[[str], Records],
    limit: int | None,
) -> str | None:
    """Hits in the reference for the records shown; None if only Spark can find them."""
    if link.left is None or link.right is None:
        return None
    reference = opened(link.reference)
    found = None
    for name, columns in link.left.items():
        if name not in hits:
            continue
        values = opened(name).values(hits[name], columns, limit)
        matched = reference.by_values(values, link.right)
        found = matched if found is None else _both(reference, found, matched)
    return found


def _both(records: Records, first: str, second: str) -> str:
    return records.desk.keep(f"SELECT * FROM {first} UNION SELECT * FROM {second}")
