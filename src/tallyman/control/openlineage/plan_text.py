"""A plan as text for people, in the form of SQL's pipes: one line for each step. Never executed.

The steps are written by their fields, so that a new verb needs nothing here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain, step_ids
from tallyman.domain.definition.step_facts import Lookup
from tallyman.engine.code.shown_code import shown_expression
from tallyman.engine.expressions.column_names import quoted

ELSEWHERE = ("name", "seq")
"""Fields of a step that its id shows."""


def plan_text(plan: Frame) -> str:
    """Write the plan as `FROM input`, and `|> step(field => value, …)  -- id` for each step."""
    return _plan(plan, step_ids(plan))


def step_texts(plan: Frame) -> dict[str, str]:
    """Map each step's id to its own line, after the step or input before it."""
    ids = step_ids(plan)
    found = {}
    for node, own in ids.items():
        assert node.parent is not None
        before = quoted(ids.get(node.parent, node.input))
        found[own] = f"FROM {before}\n|> {_line(node, ids)}"
    return found


def _plan(plan: Frame, ids: dict[Frame, str]) -> str:
    lines = (f"{_line(node, ids)}  -- {ids.get(node, '')}".rstrip(" -") for node in chain(plan))
    return "\n|> ".join((f"FROM {quoted(plan.input)}", *lines))


def _line(node: Frame, ids: dict[Frame, str]) -> str:
    assert node.step is not None
    return _call(node.step.kind, node.step, ids)


def _call(name: str, thing: Any, ids: dict[Frame, str]) -> str:
    given = {f.name: (getattr(thing, f.name), f.default) for f in fields(thing)}
    shown = (
        f"{field} => {_value(value, ids)}"
        for field, (value, usual) in given.items()
        if field not in ELSEWHERE and not (type(value) is type(usual) and value == usual)
    )
    return f"{name}({', '.join(shown)})"


def _value(value: object, ids: dict[Frame, str]) -> str:
    if isinstance(value, Frame):
        text = _plan(value, ids)
        return f"(\n{text}\n)" if "\n" in text else f"({text})"
    if isinstance(value, Lookup):
        return _call("lookup", value, ids)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_item(each, ids) for each in value)})"
    return shown_expression(str(value))


def _item(item: object, ids: dict[Frame, str]) -> str:
    """Write one of several values; a name with its expression as `expression AS name`."""
    if isinstance(item, tuple):
        return shown_expression(f"{item[1]} AS {quoted(str(item[0]))}")
    return _value(item, ids)
