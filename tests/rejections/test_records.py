"""Where a plan treats each record by itself, replayed records go through it alone, and join."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rejections.conftest import (
    TABLES,
    balance,
    ledger,
    lettered,
    replay,
    states,
    told,
)
from tests.world.home import Home

FIRST = [("x", "a", 1, "xx"), ("y", "e", 5, "yy")]
FIXES = """\
{"id": "b", "n": 2, "kind": "x"}
{"id": "c", "n": "still", "kind": "x"}
{"_source_key": "@raw.jsonl#5", "id": "f", "n": 6, "kind": "y"}
"""
BAD = {
    '{"id": "b", "n": 2}\nnot json\n{"id": "zz"}\n{"n": 1}\n': (
        "of 4 lines of corrections 1 is not a JSON object: line 2; "
        "2 names no open rejection: line 3 (zz), line 4."
    ),
    '{"id": "b"}\n{"id": "c"}\n{"id": "b", "n": 1}\n': (
        "of 3 lines of corrections 2 names a record that another line names too: "
        "line 1 (b), line 3 (b)."
    ),
    '{"id": "a", "n": 1, "kind": "x"}\n': (
        "of 1 lines of corrections 1 names no open rejection: line 1 (a)."
    ),
    "": "the file of corrections is empty.",
}


def files(home: Home) -> set[Path]:
    """All but the database's own, and the log."""
    every = home.path.rglob("*")
    return {p for p in every if p.is_file() and not p.is_relative_to(home.path / ".tallyman")} | {
        *(home.path / ".tallyman").glob("*")
    }


def test_from_first_run_to_last_correction(new_home: Callable[[], Home]) -> None:
    home = new_home()
    first = lettered(home)
    assert home.rows("good") == FIRST
    assert set(states(home, first).values()) == {"open"}

    # ---- what cannot be is said with numbers, and leaves nothing ----
    (home.path / "fix.jsonl").write_text(FIXES)
    before = (files(home), home.count(*TABLES))
    for text, message in BAD.items():
        (home.path / "bad.jsonl").write_text(text)
        refused = home.tallyman("rejections", "replay", first, "--with", "bad.jsonl")
        assert (refused.code, refused.json["error"]["message"]) == (2, message)
    (home.path / "bad.jsonl").unlink()
    asked = home.tallyman("rejections", "replay", first, "--where", "colour = 'red'")
    assert asked.code == 2
    assert "The fields are source_key" in asked.json["error"]["message"]

    # ---- a trial tells, and leaves nothing ----
    tried = replay(home, first, "--dry-run", lines=FIXES)
    assert told(tried) == (3, 2, 1)
    assert [r["error_type"] for r in tried["outcomes"][0]["reasons"]] == ["type_cast_error"]
    assert (files(home), home.count(*TABLES)) == before

    # ---- corrected: those that pass join, the other is a rejection of the replay ----
    second = replay(home, first, lines=FIXES, TALLYMAN_ACTOR="ann")
    assert told(second) == (3, 2, 1)
    joined = [*FIRST, ("x", "b", 2, "xx"), ("y", "f", 6, "yy")]
    assert home.rows("good") == home.outside("good") == sorted(joined)
    found = ledger(home, second, "good")
    assert found["replay_of"] == second["replay_of"] == first
    assert balance(found) == {"in": 3, "PASS_THROUGH": 2, "ERROR": 1}
    again = second["run"]["run_id"]
    assert home.ok("show", again)["replay_of"] == first
    assert home.ok("verify", again, "--exact")["balanced"] is True
    assert states(home, first) == {
        "@raw.jsonl#5": "replayed",
        "b": "replayed",
        "c": "moved",
        "d": "open",
    }
    assert states(home, again) == {"c": "open"}
    assert [(row["dataset"], row["command"]) for row in second["stale"]] == [
        ("totals", "tallyman run totals")
    ]

    # ---- the same file again changes nothing ----
    before = (files(home), home.count(*TABLES))
    assert replay(home, first, lines=FIXES)["outcomes"] == []
    assert (files(home), home.count(*TABLES)) == before
    assert home.ok("run", "good")["published"] == {}
    assert home.rows("good") == sorted(joined)

    # ---- unchanged, once the table they are looked up in was mended ----
    home.data("more.jsonl", {"kind": "zz", "label": "zed"})
    home.ok("load", "kinds", "data/more.jsonl")
    third = replay(home, first)
    assert told(third) == (1, 1, 0)
    assert balance(ledger(home, third, "good")) == {"in": 1, "PASS_THROUGH": 1}
    joined.append(("zz", "d", 4, "zed"))
    assert home.rows("good") == sorted(joined)
    reply = home.printed("rejections", "replay", first)
    assert reply.code == 0, str(reply)
    said = reply.stdout
    assert said.startswith("nothing to replay: 0 open of 4 rejected (")
    assert f"1 rejected again in run {again}" in said
    assert said.endswith(f"to replay those:  tallyman rejections replay {again}\n")

    # ---- what a rollback takes back is open again ----
    versions = home.heads()["good"]
    home.ok("rollback", "good", "--to", str(versions - 1))
    assert states(home, first)["d"] == "open"
    assert told(replay(home, first)) == (1, 1, 0)
    assert home.rows("good") == sorted(joined)

    # ---- given up, with a reason ----
    words = ("rejections", "discard", again, "--reason", "nobody knows", "--where")
    gone = home.ok(*words, "error_code = 'NEGATIVE'", TALLYMAN_ACTOR="ann")
    assert gone["discarded"] == 0
    gone = home.ok(*words, "actual = 'still'", TALLYMAN_ACTOR="ann")
    assert (gone["discarded"], states(home, again)) == (1, {"c": "discarded"})
    kept = "SELECT r.name, source_key, x.actor, reason FROM resolutions x JOIN runs r "
    kept += "ON r.id = x.run_id WHERE outcome = 'discarded'"
    assert home.query(kept) == [(again, "c", "ann", "nobody knows")]
    audit = home.ok("audit", again)
    assert audit[0]["event_type"] == "rejections.discarded"
    assert audit[0]["details"]["reason"] == "nobody knows"
    assert replay(home, again)["outcomes"] == []
    assert home.ok("rejections", "ls", again, "--open") == []


@pytest.fixture(scope="module")
def shared(new_home: Callable[[], Home]) -> tuple[Home, str]:
    home = new_home()
    return home, lettered(home)


def test_refused_when_the_world_has_moved_on(shared: tuple[Home, str]) -> None:
    home, first = shared
    raw = home.path / "data" / "raw.jsonl"
    text = raw.read_text()
    negative = ("--where", "error_code = 'NEGATIVE'")

    raw.write_text(text.replace('"three"', "3"))
    assert home.refused("rejections", "replay", first, *negative) == "source_changed"
    # Nothing that stands in the source is needed for a record that is corrected.
    fixed = replay(home, first, lines='{"id": "b", "n": 2, "kind": "x"}\n')
    assert told(fixed) == (1, 1, 0)

    home.edit("n > 0", "n > 1")
    assert home.refused("rejections", "replay", first) == "definition_changed"
    home.edit("n > 1", "n > 0")

    newer = home.ok("run", "good")["run_id"]
    refused = home.tallyman("rejections", "replay", first)
    assert (refused.code, refused.json["error"]["code"]) == (4, "rejections_outdated")
    assert f"tallyman rejections replay {newer}" in refused.json["error"]["message"]
    assert states(home, newer) == dict.fromkeys(["@raw.jsonl#5", "b", "d"], "open")


def test_a_key_that_stands_twice_is_not_replayed(new_home: Callable[[], Home]) -> None:
    home = new_home()
    first = lettered(home, '{"id": "b", "n": 7, "kind": "x"}')
    refused = home.tallyman("rejections", "replay", first)
    assert (refused.code, refused.json["error"]["code"]) == (2, "not_replayable")
    assert "1 of the records share their key with another (b)" in refused.json["error"]["message"]

    # A record that could not be read, corrected to one whose row is there already.
    twice = '{"_source_key": "@raw.jsonl#5", "id": "a", "n": 6, "kind": "y"}\n'
    (home.path / "twice.jsonl").write_text(twice)
    for code, words in ((1, ()), (0, ("--dry-run",))):  # a trial only tells
        repeated = home.tallyman("rejections", "replay", first, "--with", "twice.jsonl", *words)
        assert repeated.code == code, str(repeated)
        assert "2 rows share 1 value(s) of the key (id)" in json.dumps(repeated.json)
        assert home.rows("good") == sorted([*FIRST, ("x", "b", 7, "xx")])
    assert told(replay(home, first, "--where", "source_key <> 'b'")) == (3, 0, 3)
