"""Killed anywhere, a replay leaves nothing or all of it; two at once are one.

The tests share a home, and each has a rejection of its own: b, c and d.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallyman.faults import Point
from tests.rejections.conftest import lettered, replay, states, told
from tests.world.home import Home
from tests.world.reply import Reply
from tests.world.scale import by_form

BROKEN = (Point.SEGMENT_WRITTEN, Point.FRAGMENT_DESCRIBED)
MADE = (Point.ASSET_RECORDED, Point.METADATA_WRITTEN)
FIX = '{"id": "b", "n": 2, "kind": "x"}\n'


@pytest.fixture(scope="module")
def shared(new_home: Callable[[], Home]) -> tuple[Home, str]:
    home = new_home()
    return home, lettered(home)


def killed(home: Home, first: str, point: Point) -> str:
    """The run that was killed there."""
    words = ("rejections", "replay", first, "--with", "fix.jsonl")
    reply = home.tallyman(*words, TALLYMAN_CRASH_AT=point)
    assert reply.code == -9, str(reply)
    newest = "SELECT name FROM runs ORDER BY started_at DESC LIMIT 1"
    return str(home.query(newest)[0][0])


def settled(home: Home) -> object:
    text = "SELECT count(settled_at) FROM resolutions WHERE source_key = 'b'"
    return home.query(text)[0][0]


def test_killed_anywhere_it_is_nothing_or_all(shared: tuple[Home, str]) -> None:
    home, first = shared
    (home.path / "fix.jsonl").write_text(FIX)
    rows, heads = home.rows("good"), home.heads()
    for point in by_form((BROKEN[0], MADE[-1]), (*BROKEN, *MADE)):
        run = killed(home, first, point)
        assert (home.rows("good"), home.heads(), settled(home)) == (rows, heads, 0)
        assert states(home, first)["b"] == "open"
        if point in BROKEN:
            refused = home.tallyman("resume", run)
            assert (refused.code, refused.json["error"]["code"]) == (4, "replay_interrupted")
            assert f"tallyman rejections replay {first}" in refused.json["error"]["message"]
    # What had been made of them can still be published; what is replayed twice is so once.
    done = home.ok("resume", run)
    assert done["published"] == {"good": heads["good"] + 1}
    assert (states(home, first)["b"], settled(home)) == ("replayed", 1)
    assert home.rows("good") == sorted([*rows, ("x", "b", 2, "xx")])
    assert replay(home, first, lines=FIX)["outcomes"] == []


def test_killed_after_the_commit_it_is_all(shared: tuple[Home, str]) -> None:
    home, first = shared
    (home.path / "fix.jsonl").write_text('{"id": "c", "n": 3, "kind": "x"}\n')
    rows, heads = home.rows("good"), home.heads()
    run = killed(home, first, Point.COMMITTED)
    assert home.rows("good") == sorted([*rows, ("x", "c", 3, "xx")])
    assert states(home, first)["c"] == "replayed"
    assert home.ok("resume", run)["published"] == {"good": heads["good"] + 1}
    assert home.heads() == {**heads, "good": heads["good"] + 1}


def test_of_two_at_once_one_wins(shared: tuple[Home, str]) -> None:
    """Also when both come to the same: then nothing is published that could conflict."""
    home, first = shared
    words = ("rejections", "replay", first, "--where", "source_key = 'd'", "--json")
    running = [home.start(*words) for _ in range(2)]
    replies = sorted((Reply(*one.wait()) for one in running), key=lambda reply: reply.code)
    assert [reply.code for reply in replies] in ([0, 4], [0, 0]), "\n".join(map(str, replies))
    if replies[1].code == 4:
        assert replies[1].json["error"]["code"] == "rejections_taken"
    done = [reply for reply in replies if reply.code == 0 and reply.json["outcomes"]]
    assert [told(reply.json) for reply in done] == [(1, 0, 1)]
    assert states(home, first)["d"] == "moved"
