"""A corrected line keeps what it leaves out, and is shown before and after."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.rejections.conftest import lettered, replay, states, told
from tests.world.home import Home

WHEN = "2026-01-03T10:00:00.123456Z"
CSV = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/raw.csv", format="csv", key="id",
    schema="id string, n int, price decimal(10,2), day date, at timestamp, who string",
)


@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def good(raw):
    return raw.expect("positive", "n > 0")


@tm.asset(key="who", thresholds="absolute=0,percentage=1")
def per_who(raw):
    return raw.expect("positive", "n > 0").groupBy("who").agg(total="sum(price)")
"""


@pytest.fixture(scope="module")
def rejected(new_home: Callable[[], Home]) -> tuple[Home, str]:
    home = new_home()
    return home, lettered(home)


def test_a_field_that_is_no_column_is_refused(rejected: tuple[Home, str]) -> None:
    home, first = rejected
    (home.path / "fix.jsonl").write_text('{"id": "b", "n": 2, "knd": "y"}\n{"id": "c", "m": 1}\n')
    refused = home.tallyman("rejections", "replay", first, "--with", "fix.jsonl")
    assert refused.code == 2, str(refused)
    assert refused.json["error"]["message"] == (
        "of 2 lines of corrections 1 has a field 'knd' that is no column (did you mean 'kind'?): "
        "line 1; 1 has a field 'm' that is no column: line 2."
    )


def test_a_field_that_is_left_out_keeps_the_value_of_its_record(rejected: tuple[Home, str]) -> None:
    home, first = rejected
    # ---- of a record that cannot be read there is nothing to keep ----
    (home.path / "fix.jsonl").write_text('{"_source_key": "@raw.jsonl#5", "id": "f", "n": 6}\n')
    refused = home.tallyman("rejections", "replay", first, "--with", "fix.jsonl")
    assert refused.code == 2, str(refused)
    assert "leaves out fields of a record that cannot be read" in str(refused.json["error"])

    # ---- before and after, and nothing written ----
    lines = '{"id": "b", "n": 2}\n{"kind": "y", "id": "c"}\n{"id": "d", "kind": null}\n'
    tried = replay(home, first, "--dry-run", lines=lines)
    [outcome] = tried["outcomes"]
    assert told(tried) == (3, 1, 2)
    assert outcome["corrected"] == 3
    assert {one["source_key"]: one["changed"] for one in outcome["corrections"]} == {
        "b": {"n": {"from": -2, "to": 2}},
        "c": {"kind": {"from": "x", "to": "y"}},
        "d": {"kind": {"from": "zz", "to": None}},
    }
    said = home.printed("rejections", "replay", first, "--with", "fix.jsonl", "--dry-run").stdout
    assert "    b   n: -2 → 2\n" in said
    assert "    d   kind: zz → NULL\n" in said

    # ---- what could not be typed is still there, and rejected for the same reason ----
    second = replay(home, first, lines=lines)
    assert told(second) == (3, 1, 2)
    assert ("x", "b", 2, "xx") in home.rows("good")
    again = second["run"]["run_id"]
    actual = {
        letter["source_key"]: (letter["error_type"], letter["actual"])
        for letter in home.ok("rejections", "show", again)["rejections"]
    }
    assert actual["c"] == ("type_cast_error", "three")
    # ---- a record that was corrected before is that correction ----
    third = replay(home, again, lines='{"id": "c", "n": 3}\n')
    assert told(third) == (1, 1, 0)
    assert ("y", "c", 3, "yy") in home.rows("good")
    assert home.ok("verify", third["run"]["run_id"], "--exact")["balanced"] is True

    # ---- the source changed: what is left out is lost, and a whole line needs none of it ----
    raw = home.path / "data" / "raw.jsonl"
    raw.write_text(raw.read_text().replace('"n": 4', '"n": 40'))
    (home.path / "fix.jsonl").write_text('{"id": "d", "kind": "x"}\n')
    code = home.refused("rejections", "replay", again, "--with", "fix.jsonl")
    assert code in ("source_changed", "corrections_refused")


def test_values_of_a_csv_file_and_of_a_whole_replay_are_kept(new_home: Callable[[], Home]) -> None:
    home = new_home().pipeline(CSV)
    (home.path / "data").mkdir(exist_ok=True)
    (home.path / "data" / "raw.csv").write_text(
        "id,n,price,day,at,who\n"
        f"a,1,1.50,2026-01-01,{WHEN},ann\n"
        f"b,-2,2.50,2026-01-02,{WHEN},ben\n"
        f"c,three,3.50,2026-01-03,{WHEN},ann\n"
        f"d,4,much,2026-01-04,{WHEN},ben\n"
    )
    first = home.ok("run")["run_id"]
    lines = '{"id":"b","n":2}\n{"id":"c","n":3}\n{"id":"d","n":5}\n'
    done = replay(home, first, "--asset", "good", lines=lines)
    assert told(done) == (3, 2, 1)
    rows = {row[0]: row[1:] for row in home.rows("good")}
    assert [str(v) for v in rows["b"][:3]] == ["2", "2.50", "2026-01-02"]
    assert [str(v) for v in rows["c"][:3]] == ["3", "3.50", "2026-01-03"]
    assert rows["a"][3] == rows["b"][3] == rows["c"][3]
    assert [rows[key][4] for key in "abc"] == ["ann", "ben", "ann"]
    # ---- all records again, in two replays: the first correction stays and needs no second ----
    whole = replay(home, first, "--asset", "per_who", lines='{"id":"b","n":2}\n')
    assert told(whole) == (1, 1, 0)
    last = replay(home, whole["run"]["run_id"], "--asset", "per_who",
                  lines='{"id":"d","price":4.00}\n')  # fmt: skip
    assert told(last) == (1, 1, 0)
    assert [[str(v) for v in row] for row in home.rows("per_who")] == [
        ["ann", "1.50"],
        ["ben", "6.50"],
    ]
    assert states(home, last["run"]["run_id"]) == {"c": "open"}
    kept = list((home.path / last["run"]["folder"]).glob("per_who/replay/changes/*.jsonl"))
    keys = [json.loads(line)["source_key"] for one in kept for line in one.read_text().splitlines()]
    assert sorted(keys) == ["b", "d"]
