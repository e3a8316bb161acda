"""One expression of a plan: what is known about it without Spark."""

from __future__ import annotations

import re
from typing import Any

Expression = str
"""SQL text."""
Given = Any
"""What a verb is given: SQL text, or a pyspark Column, which compiling the plan writes as SQL."""

_WINDOW = re.compile(r"\bover\b", re.I)


def bare_name(expression: Expression) -> str:
    """Return the text without blanks and backticks around it: a name, if it is one."""
    return expression.strip().strip("`")


def has_window(expression: Expression) -> bool:
    """True if the value for a row depends on other rows."""
    return _WINDOW.search(expression) is not None
