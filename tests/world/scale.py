"""How much the tests do: each promise once, everything, or everything in its large form.

TALLYMAN_SCALE names the form. Without it (`make test`) each promise is shown in its cheapest
convincing form. `wide` (`make test-wide`, what CI runs) adds what is marked `@pytest.mark.wide`:
second looks at the same promise, all parametrizations, whole matrices. `full`, before a release,
adds what is large by nature.

A random test tries some of its cases. TALLYMAN_TURN chooses which. Without it the choice is always
the same, so that a change is tried by the cases it was written with; the full form tries all.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

FORMS = ("default", "wide", "full")
FORM = os.environ.get("TALLYMAN_SCALE") or FORMS[0]
if FORM not in FORMS:
    raise pytest.UsageError(f"TALLYMAN_SCALE={FORM}: the forms are {', '.join(FORMS)}")
FULL = FORM == "full"
WIDE = FORM in ("wide", "full")
TURN = os.environ.setdefault("TALLYMAN_TURN", "0")
"""In the environment, so that all workers of a session choose the same."""
MARKER = "wide: a second look at a promise; only with TALLYMAN_SCALE=wide or full"
Case = TypeVar("Case")


def by_form(default: Case, wide: Case, full: Case | None = None) -> Case:
    """Return the size of this form; the full form has that of the wide one unless it is given."""
    if FULL:
        return wide if full is None else full
    return wide if WIDE else default


def some(cases: Sequence[Case], number: int, wide: int | None = None) -> list[Case]:
    """Return that many of the cases, in their order; in the wide form `wide` of them, or all if
    that is not given; all of them in the full form."""
    number = by_form(number, len(cases) if wide is None else wide, len(cases))
    if number >= len(cases):
        return list(cases)
    chosen = random.Random(f"{TURN} {len(cases)}").sample(range(len(cases)), number)
    return [cases[place] for place in sorted(chosen)]


def left_out(items: Sequence[pytest.Item], *, wide: bool = WIDE) -> list[pytest.Item]:
    """Return the tests that this form does not run: none in the wide form."""
    return [] if wide else [item for item in items if item.get_closest_marker("wide")]
