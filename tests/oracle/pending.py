"""What other parts of issue 13 change, and what the oracle expects already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.oracle.compare import Different
from tests.oracle.conftest import TARGETS

# What other parts of issue 13 change, and what the oracle expects already. Delete an entry when its
# part is merged: the test says so by itself (strict).
#   a  which records a source rejects is decided by all declared columns
#   b  a rule is not charged to a record whose field could not be read
#   c  why and where are exact also where keys repeat or are NULL in part
#   d  letters have an error_id, and say which of the record's rejections they are
PENDING: dict[tuple[str, str], str] = {
    ("fates", "labels"): "a, b",
    ("fates", "depot_scans"): "a",
    ("rejections", "labels"): "a, b",
    ("rejections", "depot_scans"): "a",
    ("sub-ledgers", "labels"): "a",
    ("rows", "labels"): "a",
    ("versions", "labels"): "a",
    ("where, met", "notices"): "where says of a record whose row was there before: not met",
} | {("letters", name): "d" for name in TARGETS}


def pending(test: str, names: Iterable[str]) -> list[Any]:
    """The names as parameters, those that wait for another part marked."""
    marks = {
        name: [pytest.mark.xfail(reason=f"issue 13: {why}", strict=True, raises=Different)]
        for name in names
        if (why := PENDING.get((test, name)))
    }
    return [pytest.param(name, marks=marks.get(name, ())) for name in names]
