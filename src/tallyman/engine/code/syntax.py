"""Python files as trees, read one at a time."""

from __future__ import annotations

import ast
import warnings
from threading import Lock

_one_at_a_time = Lock()
"""Python 3.11 fails when two threads make a tree at once, and what is warned of is shared."""


def parsed(content: bytes | str) -> ast.Module:
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content)
