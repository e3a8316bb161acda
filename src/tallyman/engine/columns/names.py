"""The name of a selected expression, as far as its text shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from tallyman.domain.definition.expression import bare_name, text_of
from tallyman.engine.columns.uses import parsed
from tallyman.engine.plan.in_place import spelled

_ALIAS = re.compile(r"\bAS\s+`?([^`()]+?)`?$", re.I)
_PATH = re.compile(r"[\w`]+(?:\.[\w`]+)*")


def selected_as(expression: object, columns: Sequence[str]) -> tuple[str, bool]:
    """Return the name, and whether it is certain: Spark makes one up for an unnamed expression."""
    text = text_of(expression).strip()
    own = bare_name(expression)
    if spelled(own, columns) is not None:
        return own, True
    if not isinstance(expression, str):
        alias = _ALIAS.search(text)
        if alias:
            return alias.group(1), True
        last = text.rpartition(".")[2].strip("`")
        return (last, True) if _PATH.fullmatch(text) and last else (text, False)
    tree = parsed(expression)
    match tree:
        case exp.Alias():
            return tree.alias, True
        case exp.Column() if not tree.find(exp.Star):
            return tree.name, True
    return text, False
