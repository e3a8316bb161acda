"""The comparison of a page with what was printed: strict, except for ids, times and sizes."""

from __future__ import annotations

import pytest

from tests.docs import masks

OLD = "4f1d2c3b-0000-4000-8000-1234567890ab"
NEW = "9a8b7c6d-0000-4000-8000-ba0987654321"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("60 in = 51 aggregated", "60 in = 52 aggregated"),
        ("balanced", "NOT BALANCED"),
        ("5 rows out   5.9 s", "5 rows out"),
        ("2026-01-01  498.75", "2026-01-02  498.75"),
        ("one line", "one line\nand another"),
        ("first\n…\nlast", "first\nmiddle\nother"),
        ("…\nlast", "last\nmore"),
    ],
    ids=["a number", "a word", "nothing", "a day", "a line more", "the end", "after an elision"],
)
def test_what_must_not_differ_is_found(shown: str, printed: str) -> None:
    left, right = shown.split("\n"), printed.split("\n")
    assert masks.pairs(left, right) is None
    assert masks.difference(left, right) or "…" in left


def test_bytes_may_differ_only_in_their_column() -> None:
    shown = ["version  rows  bytes  by", "      2     6  1,075  ann"]
    assert masks.pairs(shown, ["version  rows   bytes  by", "      2     6  12,345  ann"])
    assert masks.pairs(shown, ["version  rows  bytes  by", "      2     7  1,075  ann"]) is None


def test_later_commands_use_the_ids_of_this_run() -> None:
    known = masks.names([f"run {OLD}   commit 00aa11bb"], [f"run {NEW}   commit cc22dd33"])
    text = "tallyman rollback --commit 00aa11bb && tallyman show 4f1d2c3b"
    assert masks.renamed(text, known) == (
        "tallyman rollback --commit cc22dd33 && tallyman show 9a8b7c6d"
    )


def test_a_page_that_is_right_is_recorded_as_it_is() -> None:
    shown = [f"balanced   run {OLD}   5.9 s"]
    assert masks.recorded(shown, [f"balanced   run {NEW}   70.1 s"], {OLD: NEW}) == shown


def test_a_changed_line_keeps_the_ids_and_times_of_the_page() -> None:
    shown, printed = [f"balanced   run {OLD}   5.9 s"], [f"in balance   run {NEW}   70.1 s"]
    assert masks.recorded(shown, printed, masks.names(shown, printed)) == [
        f"in balance   run {OLD}   5.9 s"
    ]


def test_recording_keeps_elisions() -> None:
    assert masks.recorded(["a", "  …", "z"], ["A", "b", "c", "z"], {}) == ["A", "  …", "z"]
