"""How many cases each kind of fuzz tries: together at least 1,300 always, 100,000 in the
full form."""

from __future__ import annotations

from tests.world.scale import FULL, by_form

DEFINITION_TESTS = 8
"""Tests of settings and pipeline files; each tries DEFINITIONS cases."""
DEFINITIONS = by_form(30, 12_500)
ARGUMENTS = by_form(160, 7_500)
FILES = by_form(500, 1_000)
"""Input files of random bytes, for each format and run."""
RUNS = 5 if FULL else 1
FORMATS = ("csv", "json")


def total() -> int:
    return DEFINITION_TESTS * DEFINITIONS + ARGUMENTS + FILES * RUNS * len(FORMATS)
