"""`why` and `where` of records that a person corrected, and of results with several references."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int, kind string"
)
tm.source("kinds", "data/kinds.jsonl", key="kind", schema="kind string, label string")
tm.source("limits", "data/limits.jsonl", key="kind", schema="kind string, most int")


@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def good(raw, kinds, limits):
    return (
        raw.expect("positive", "n > 0").join(kinds, "kind", unmatched="error", name="kind")
        .join(limits, "kind", how="left", unmatched="keep", name="limit")
    )


@tm.asset(key="label")
def totals(good):
    return good.groupBy("label").agg(total="sum(n)")


@tm.asset(key="kind", thresholds="absolute=0,percentage=1")
def per_kind(raw):
    return raw.expect("positive", "n > 0").groupBy("kind").agg(total="sum(n)")
"""
FIXES = '{"id": "b", "n": 2, "kind": "x"}\n{"id": "d", "kind": "x", "n": 4}\n'


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    """Both assets have a replay of the same two records: one by one, and all together."""
    home = homes.make(Home, "replays").pipeline(PIPELINE)
    rows = [("a", 1, "x"), ("b", -2, "x"), ("d", -4, "zz"), ("e", 5, "y")]
    home.data("raw.jsonl", *({"id": i, "n": n, "kind": kind} for i, n, kind in rows))
    home.data("kinds.jsonl", *({"kind": k, "label": k * 2} for k in "xy"))
    home.data("limits.jsonl", *({"kind": k, "most": 9} for k in "xy"))
    first = home.ok("run")["run_id"]
    (home.path / "fix.jsonl").write_text(FIXES)
    for asset in ("good", "per_kind"):
        words = ("rejections", "replay", first, "--asset", asset, "--with", "fix.jsonl")
        home.ok(*words, TALLYMAN_ACTOR="cleo")
    home.ok("run", "totals")
    return home


def origin(found: Any) -> Any:
    [hop] = found["hops"]
    [one] = hop["inputs"]
    return one


def changed(origin: Any) -> dict[str, Any]:
    assert "not_shown" not in origin
    assert {one["corrected_by"] for one in origin["corrections"]} == {"cleo"}
    return {one["source_key"]: one["changed"] for one in origin["corrections"]}


B = {"b": {"n": {"from": -2, "to": 2}}}
BOTH = {**B, "d": {"n": {"from": -4, "to": 4}, "kind": {"from": "zz", "to": "x"}}}


def test_why_of_a_replayed_row_and_of_its_group_shows_the_correction(home: Home) -> None:
    row = home.ok("why", "good", "id=b")
    assert changed(origin(row)) == B
    [record] = origin(row)["records"]
    assert (record["file"], record["line"]) == ("data/raw.jsonl", 2)
    # ---- what it was joined with is what the corrected value met ----
    row = home.ok("why", "good", "id=d")
    assert changed(origin(row)) == {"d": BOTH["d"]}
    labels = [j["origin"]["records"][0]["values"] for j in row["hops"][0]["joins"]]
    assert labels == [{"kind": "x", "label": "xx"}, {"kind": "x", "most": 9}]

    # ---- a group of replayed rows, and one that was made again with all its records ----
    group = origin(home.ok("why", "totals", "label=xx"))
    from_replay = [hop for hop in group["hops"] if "corrections" in hop["inputs"][0]]
    assert [changed(hop["inputs"][0]) for hop in from_replay] == [BOTH]
    assert changed(origin(home.ok("why", "per_kind", "kind=x"))) == BOTH
    said = home.printed("why", "per_kind", "kind=x").stdout
    assert "d was corrected by cleo on 20" in said
    assert "n: -4 → 4, kind: zz → x\n" in said
    assert "changed since" not in said
    untouched = home.ok("why", "per_kind", "kind=y")
    assert "corrections" not in origin(untouched)
    assert "changed since" not in json.dumps(untouched)


def test_where_of_a_corrected_record_shows_both_runs_and_says_nothing_of_others(
    home: Home,
) -> None:
    found = home.ok("where", "raw", "id=b")
    became = [(o["asset"], bool(o.get("rejections")), o["rows"]) for o in found["became"]]
    assert sorted(became) == [("good", False, 1), ("good", True, 0), ("per_kind", False, 1)]
    for one in found["became"]:
        notes = [note.split(" on ")[0] for note in one.get("notes", ())]
        assert notes == ([] if one.get("rejections") else ["b was corrected by cleo"])
    # ---- a record that was not replayed had no part in the replay, and is not said to be new ----
    found = home.ok("where", "raw", "id=a")
    assert sorted(one["asset"] for one in found["became"]) == ["good", "per_kind"]
    assert "did not read" not in json.dumps(found)
    assert "changed" not in json.dumps(found)


def test_where_of_a_reference_counts_the_records_that_a_replay_read(home: Home) -> None:
    for kind, joined in (("x", [1, 2]), ("y", [0, 1])):
        became = home.ok("where", "kinds", f"kind={kind}")["became"]
        assert sorted(one["joined_by"] for one in became) == joined


def test_why_withholds_only_the_reference_that_changed(home: Home) -> None:
    kinds = home.path / "data" / "kinds.jsonl"
    text = kinds.read_text()
    kinds.write_text(text + '{"kind": "zz", "label": "zed"}\n')
    try:
        row = home.ok("why", "good", "id=b")
    finally:
        kinds.write_text(text)
    by_name = {j["origin"]["name"]: j["origin"] for j in row["hops"][0]["joins"]}
    assert "its files changed since run" in by_name["kinds"]["not_shown"]
    assert by_name["limits"]["records"][0]["values"] == {"kind": "x", "most": 9}
    assert changed(origin(row)) == B
