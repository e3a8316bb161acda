"""How much the tests do: everything, or everything and what is large by nature.

TALLYMAN_SCALE=full names the second form. What is large has a small form that always runs: a size
is `by_form(small, full)`, and of a list of cases `some(cases, number)` tries that many. A test
that has none is marked `@pytest.mark.large`.

TALLYMAN_TURN chooses which cases a random test tries. Without it the choice is always the same, so
that a change is tried by the cases it was written with; the full form tries all.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

FORM = os.environ.get("TALLYMAN_SCALE", "")
if FORM not in ("", "full"):
    raise pytest.UsageError(f"TALLYMAN_SCALE={FORM}: the only other form is full")
FULL = FORM == "full"
TURN = os.environ.setdefault("TALLYMAN_TURN", "0")
"""In the environment, so that all workers of a session choose the same."""
MARKER = "large: large by nature; only with TALLYMAN_SCALE=full"
Case = TypeVar("Case")


def by_form(small: Case, full: Case) -> Case:
    return full if FULL else small


def some(cases: Sequence[Case], number: int) -> list[Case]:
    """Return that many of the cases, in their order; all of them in the full form."""
    if FULL or number >= len(cases):
        return list(cases)
    chosen = random.Random(f"{TURN} {len(cases)}").sample(range(len(cases)), number)
    return [cases[place] for place in sorted(chosen)]
