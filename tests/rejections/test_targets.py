"""A replay of several targets is one commit of all of them, or none."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.rejections.conftest import replay, told
from tests.world.home import Home

DAYS = ("2025-01-01", "2025-01-02", "2025-01-03")
PIPELINE = """\
import tallyman as tm

days = tm.daily("day", start="2025-01-01")
raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)


@tm.asset(key="id", partitioned_by=days, thresholds="absolute=0,percentage=1")
def numbers(raw):
    return raw.expect("positive", "n > 0")
"""


def line(day: str, name: str, n: int, key: str | None = None) -> str:
    named = {"_source_key": key} if key else {}
    return json.dumps({**named, "id": name, "n": n, "day": day}) + "\n"


def test_targets_are_replayed_together_or_not_at_all(new_home: Callable[[], Home]) -> None:
    home = new_home().pipeline(PIPELINE)
    for day in DAYS:
        home.data(f"{day}/raw.jsonl", *({"id": f"{day[-1]}{n}", "n": n, "day": day} for n in (1,)))
        bad = line(day, f"{day[-1]}x", -1) + line(day, "same", -1) + "not json\n"
        with (home.path / "data" / day / "raw.jsonl").open("a") as file:
            file.write(bad)
    first = home.ok("backfill", "--from", DAYS[0], "--to", DAYS[-1])["run_id"]
    rows = [f"{day[-1]}1" for day in DAYS]
    assert [row[0] for row in home.rows("numbers")] == rows

    # ---- a key that is in several partitions names several records ----
    (home.path / "fix.jsonl").write_text(line(DAYS[0], "same", 5))
    refused = home.tallyman("rejections", "replay", first, "--with", "fix.jsonl")
    assert refused.code == 2, str(refused)
    assert "names a record of several partitions" in refused.json["error"]["message"]
    one = ("--where", f"target = 'numbers[d:{DAYS[0]}]'")
    assert told(replay(home, first, *one, "--dry-run", "--with", "fix.jsonl")) == (1, 1, 0)

    # ---- one target fails: nothing of the others is published, and all are open ----
    clash = [line(DAYS[1], "21", 5, "2x"), line(DAYS[2], "3x", 7)]
    (home.path / "fix.jsonl").write_text("".join(clash))
    words = ("rejections", "replay", first, "--with", "fix.jsonl")
    reply = home.printed(*words)
    assert reply.code == 1, str(reply)
    assert "2 records of 2 targets: none was replayed, because 1 target failed" in reply.stdout
    assert [row[0] for row in home.rows("numbers")] == rows
    assert len(home.ok("rejections", "show", first, "--open")["rejections"]) == 9

    # ---- all pass: one commit, and the message names it ----
    versions = home.heads()["numbers"]
    (home.path / "fix.jsonl").write_text("".join(line(day, f"{day[-1]}x", 5) for day in DAYS))
    tried = replay(home, first, "--dry-run", "--with", "fix.jsonl")
    assert told(tried) == (3, 3, 0)
    reply = home.printed(*words)
    assert reply.code == 0, str(reply)
    commit = home.ok("commits")[0]["id"][:8]
    said = "3 records of 3 targets: 3 passed + 0 rejected again, in one commit, " + commit
    assert said in reply.stdout
    assert home.heads()["numbers"] == versions + 1
    assert [row[0] for row in home.rows("numbers")] == sorted([*rows, "1x", "2x", "3x"])

    # ---- the rest as it was: rejected again, by all three ----
    reply = home.printed("rejections", "replay", first)
    assert reply.code == 0, str(reply)
    assert "6 records of 3 targets: 0 passed + 6 rejected again, no commit" in reply.stdout
    assert home.ok("verify", "latest", "--exact")["balanced"] is True
