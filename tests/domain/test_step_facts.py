"""The facts of every verb agree with its fields; a verb that is added later is found by itself."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tallyman.domain.definition import step, working_step
from tallyman.domain.definition.expressions import rewritten
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import others
from tallyman.domain.definition.step_facts import Lookup, Step

STEPS = [
    found
    for found in [*vars(step).values(), *vars(working_step).values()]
    if isinstance(found, type) and issubclass(found, Step) and found is not Step
]
OTHER = Frame("other")
# By the annotation of a field: a value of its kind.
VALUES: dict[str, object] = {
    "Expression": "e1",
    "Expression | None": "e1",
    "tuple[Expression, ...]": ("e1", "e2"),
    "Pairs": (("made", "e1"), ("also", "e2")),
    "Frame": OTHER,
    "tuple[Lookup, ...]": (Lookup("fx", OTHER, "k = code"),),
    "tuple[str, ...]": ("c1",),
    "tuple[str, ...] | None": ("c1",),
    "str": "text",
    "str | None": None,
    "int": 1,
    "int | None": None,
    "bool": False,
    "On": "k",
}


def _made(kind: type[Step]) -> Step:
    return kind(**{field.name: VALUES[str(field.type)] for field in fields(kind)})  # type: ignore[arg-type]


def _held(value: object) -> list[object]:
    if isinstance(value, tuple):
        return [each[1] if isinstance(each, tuple) else each for each in value]
    return [value]


def test_there_are_verbs_to_look_at() -> None:
    assert len(STEPS) >= 16
    assert len({kind.kind for kind in STEPS}) == len(STEPS)


@pytest.mark.parametrize("kind", STEPS)
def test_every_expression_of_a_step_is_among_its_facts(kind: type[Step]) -> None:
    made = _made(kind)
    typed = [f.name for f in fields(kind) if "Expression" in str(f.type) or f.type == "Pairs"]

    assert set(made.holds) == set(typed)
    held = [one for name in made.holds for one in _held(getattr(made, name))]
    # A step may add expressions of its own, which no author wrote.
    assert [one for one in made.expressions() if one in held] == held


@pytest.mark.parametrize("kind", STEPS)
def test_every_plan_that_a_step_reads_is_among_its_facts(kind: type[Step]) -> None:
    made = _made(kind)
    plans = [f.name for f in fields(kind) if str(f.type) in ("Frame", "tuple[Lookup, ...]")]

    assert len(list(others(made))) == len(plans)
    assert all(other is OTHER for other in others(made))


@pytest.mark.parametrize("kind", STEPS)
def test_a_plan_is_rewritten_in_every_expression_and_nowhere_else(kind: type[Step]) -> None:
    plan = Frame("rows", _made(kind), Frame("rows"))

    changed = rewritten(plan, lambda given: f"new {given}").step

    assert changed is not None
    assert plan.step is not None
    for name in changed.holds:
        before, after = _held(getattr(plan.step, name)), _held(getattr(changed, name))
        assert after == [f"new {each}" for each in before]
    assert changed.needs() == plan.step.needs()
    assert changed.made_names() == plan.step.made_names()


@pytest.mark.parametrize("kind", STEPS)
def test_names_that_a_step_reads_are_names_that_it_needs(kind: type[Step]) -> None:
    made = _made(kind)

    assert set(made.column_names()) | set(made.drops()) == set(made.needs())
    assert not (made.inflow is not None and made.references)
    assert made.in_place or not made.changes_rows
