"""Columns an expression may read: never too few."""

from __future__ import annotations

import pytest

from tallyman.engine.expressions.columns import mentioned

COLUMNS = ["id", "ssn", "odd name"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id + 1", ("id",)),
        ("SSN", ("ssn",)),
        ("`odd name` || id", ("id", "odd name")),
        ("struct(*)", tuple(COLUMNS)),
        ("count(*)", ()),
        ("idle", ()),
    ],
)
def test_what_an_expression_reads(text: str, found: tuple[str, ...]) -> None:
    assert mentioned([text], COLUMNS) == found
