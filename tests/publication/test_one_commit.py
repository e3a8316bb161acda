"""A run publishes everything it made in one commit, or nothing at all."""

from __future__ import annotations

import subprocess

import pyarrow as pa
import pyarrow.parquet as pq

from tallyman.project import Project
from tests.planting import BUG
from tests.publication.conftest import ThreeHome
from tests.world.home import COMMAND, statuses

FAILS = "\"n + cast(raise_error('no') AS int)\""
ONE = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.parquet", format="parquet", key="id")


@tm.asset(key="id")
def a(raw):
    return raw.expect("small", "n < 100")
"""


def test_a_run_publishes_all_it_made_in_one_commit_or_nothing(home: ThreeHome) -> None:
    home.numbers(1, 2)
    first = home.ok("run")
    assert first["published"] == {"a": 1, "b": 1, "c": 1}
    [commit] = home.ok("commits")
    assert (commit["id"], commit["run"]) == (first["commit"], first["run_id"])
    assert (commit["kind"], commit["versions"]) == ("run", first["published"])

    again = home.ok("run")
    assert (set(statuses(again).values()), again["commit"]) == ({"skipped"}, None)
    assert again["published"] == {}

    home.numbers(1, 2, 3)
    second = home.ok("run")
    assert second["published"] == {"a": 2, "b": 2, "c": 2}
    assert len(home.ok("commits")) == 2
    old, new = [("1", 2), ("2", 4)], [("1", 2), ("2", 4), ("3", 6)]
    assert (home.rows("b", 1), home.rows("b")) == (old, new)
    assert home.ok("read", "b", "--version", "1") == [{"id": "1", "n": 2}, {"id": "2", "n": 4}]
    with Project.open(home.path) as project:
        assert sorted(map(tuple, project.read("b", version=1).collect())) == old
    assert home.outside("b") == new

    # The last asset fails: of the three none is published.
    home.numbers(1, 2, 3, 4).edit('"n + 1"', FAILS)
    failed = home.tallyman("run", "--run-id", "failed")
    assert (failed.code, failed.json["status"], failed.json["commit"]) == (1, "failed", None)
    assert statuses(failed.json) == {"a": "success", "b": "success", "c": "failed"}
    assert home.heads() == {"a": 2, "b": 2, "c": 2}
    assert (home.rows("b"), home.outside("b"), len(home.outside("a") or ())) == (new, new, 3)
    assert len(home.ok("commits")) == 2

    # Mended: what was good is used again, and all three are published.
    home.edit(FAILS, '"n + 1"')
    installed = subprocess.run([COMMAND, "run"], cwd=home.path, capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    assert [line.split()[1:2] for line in installed.stdout.splitlines()[:2]] == [["skipped:"]] * 2
    assert "published   a v3 (was v2), b v3 (was v2), c v3 (was v2)" in installed.stdout
    assert [len(home.outside(name) or ()) for name in "abc"] == [4, 4, 4]
    assert home.damaged() == []


def parquet(home: ThreeHome, *values: int) -> ThreeHome:
    table = pa.table({"id": [str(v) for v in values], "n": pa.array(values, pa.int32())})
    (home.path / "data").mkdir(exist_ok=True)
    pq.write_table(table, home.path / "data" / "raw.parquet")
    return home


def test_nothing_becomes_current_that_does_not_balance_or_has_too_many_errors(
    home: ThreeHome,
) -> None:
    parquet(home.pipeline(ONE), 1, 2)
    home.ok("run")
    seen = [("1", 1), ("2", 2)]

    parquet(home, 1, 2, 3, 500, 600)
    halted = home.tallyman("run", "--thresholds", "absolute=1")
    assert (halted.code, halted.json["status"]) == (3, "halted"), str(halted)
    assert (halted.json["commit"], halted.json["published"]) == (None, {})
    assert (home.heads(), home.rows("a"), home.outside("a")) == ({"a": 1}, seen, seen)

    home.edit('raw.expect("small", "n < 100")', f'raw.select("id", "n", name="{BUG}")')
    unbalanced = home.tallyman("run")
    assert unbalanced.code == 1, str(unbalanced)
    [made] = unbalanced.json["assets"]
    assert made["error"]["code"] == "rows_unaccounted_for"
    assert (home.heads(), home.rows("a"), home.outside("a")) == ({"a": 1}, seen, seen)
    assert len(home.ok("commits")) == 1

    # Nothing is in the way of the next run.
    parquet(home.pipeline(ONE), 4)
    assert home.ok("run")["published"] == {"a": 2}
