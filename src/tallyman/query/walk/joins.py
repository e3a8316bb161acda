"""Follow joins by their columns: which rows of a reference matched which records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain, step_ids
from tallyman.domain.definition.step import DropDuplicates
from tallyman.domain.definition.step_facts import On, Step
from tallyman.engine.columns.origin import column_of, only_columns
from tallyman.engine.plan import in_place
from tallyman.engine.plan.plain import join_pairs
from tallyman.engine.readback.records import Records


@dataclass(frozen=True)
class JoinLink:
    """One join of a plan, as columns of its inputs."""

    step: str
    reference: str
    on: str
    rows: Frame
    """The rows that were joined; `looked_in` is the reference."""
    looked_in: Frame
    equalities: On
    left: Mapping[str, tuple[str, ...]] | None
    """The compared columns by accounted input; None if they were computed."""
    right: tuple[str, ...] | None
    """The compared columns of the reference; None if they were computed, or rows left out."""
    drops_repeated: bool
    """True if the reference keeps one of several rows with equal values."""
    before: frozenset[str]
    """The ids of the steps that a record passes before this one."""


def links(plan: Frame, known: Mapping[str, Collection[str]]) -> list[JoinLink]:
    """List the joins of a plan, in the order of its steps."""
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
                    step=names[node],
                    reference=looked_in.input,
                    on=_shown(on),
                    rows=node.parent,
                    looked_in=looked_in,
                    equalities=on,
                    left=_together(left),
                    right=_right(right, looked_in),
                    drops_repeated=not only_columns(looked_in),
                    before=frozenset(before),
                )
            )
    return found


def _looked_in(step: Step | None) -> list[tuple[Frame, On]]:
    """List each reference of a step with its join condition."""
    looked_in = () if step is None else step.references
    return [(lookup.other, in_place.equalities(lookup)) for lookup in looked_in]


def _joins(frame: Frame, names: Mapping[Frame, str]) -> Iterator[tuple[Frame, list[str]]]:
    before: list[str] = []
    for one in chain(frame):
        assert one.step is not None
        if one.step.inflow is not None:
            yield from _joins(one.step.inflow, names)
        if one.step.references:
            yield one, list(before)
        before.append(names.get(one, ""))


def _visible(frame: Frame, known: Mapping[str, Collection[str]]) -> list[str]:
    """List the column names that a step may use; some may have been dropped."""
    found = list(known.get(frame.input, ()))
    for step in frame.steps():
        found += step.made_names()
        for lookup in step.references:
            found += [] if lookup.alias else _visible(lookup.other, known)
    return found


def _together(columns: Sequence[Mapping[str, str] | None]) -> dict[str, tuple[str, ...]] | None:
    whole = [found for found in columns if found]
    if len(whole) < len(columns) or not whole:
        return None
    inputs = set(whole[0]).intersection(*whole)
    return {name: tuple(found[name] for found in whole) for name in inputs} or None


def _right(columns: Sequence[Mapping[str, str] | None], looked_in: Frame) -> tuple[str, ...] | None:
    steps = list(looked_in.steps())
    kept = all(step.only_columns or isinstance(step, DropDuplicates) for step in steps)
    if not kept or not all(columns):
        return None
    return tuple(found[looked_in.input] for found in columns if found)


def _shown(on: On) -> str:
    return on if isinstance(on, str) else ", ".join(on)


def matched(
    link: JoinLink,
    hits: Mapping[str, Sequence[tuple[Records, str]]],
    reference: Records,
    limit: int | None,
) -> str | None:
    """Find the rows of the reference that match the shown records, of which an input may have
    several kinds; None if only Spark can find them."""
    if link.left is None or link.right is None:
        return None
    found = None
    for name, columns in link.left.items():
        for records, own in hits.get(name, ()):
            values = records.values(own, columns, limit)
            part = reference.by_values(values, link.right)
            if link.drops_repeated and not each_once(reference, part, link.right):
                return None  # it kept one of several rows
            found = part if found is None else _both(reference, found, part)
    return found


def each_once(records: Records, hits: str, columns: Sequence[str]) -> bool:
    """True if no two of these records have the same values in these columns."""
    return records.duck.count(hits) == records.duck.count(records.values(hits, columns))


def _both(records: Records, first: str, second: str) -> str:
    return records.duck.keep(f"SELECT * FROM {first} UNION SELECT * FROM {second}")
