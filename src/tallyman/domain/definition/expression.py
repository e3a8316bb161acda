"""One expression as text: what a plan can know about SQL or a Column without Spark."""

from __future__ import annotations

import re

Expression = object
"""SQL text, or a pyspark Column, which only the engine evaluates."""

WINDOW = re.compile(r"\bover\s*\(|windowspecdefinition|\bOVER\b", re.I)
# Spark prints where in a program a Column was made, with an address that changes every time.
_ORIGIN = re.compile(r",Origin\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


def text_of(expression: Expression) -> str:
    """Return the SQL text, or what Spark prints for a Column."""
    if isinstance(expression, str):
        return str(expression)
    text = _ORIGIN.sub("", str(expression))
    return text[len("Column<'") : -len("'>")] if text.startswith("Column<'") else text


def bare_name(expression: Expression) -> str:
    """Return the text without blanks and backticks around it: a name, if it is one."""
    return text_of(expression).strip().strip("`")


def is_star(expression: Expression) -> bool:
    """True if it is `"*"`, or the same as a Column (where `==` does not compare)."""
    return text_of(expression) in ("*", "unresolvedstar()")


def has_window(expression: Expression) -> bool:
    """True if the value for a row depends on other rows."""
    return WINDOW.search(text_of(expression)) is not None
