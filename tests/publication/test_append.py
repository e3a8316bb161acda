"""update_strategy="append": rows are only ever added, each unique key once."""

from __future__ import annotations

from tests.publication.conftest import ThreeHome
from tests.world.home import statuses

PIPELINE = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="line",
                schema="line string, id string, n int")


@tm.asset(key="line", unique=False, update_strategy="append", unique_key="id")
def log(raw):
    return raw


@tm.asset(key="id")
def read(log):
    return log.select("id", "n")
"""


def lines(home: ThreeHome, *pairs: tuple[str, int]) -> ThreeHome:
    rows = [{"line": f"{n}.", "id": key, "n": value} for n, (key, value) in enumerate(pairs)]
    return home.data("raw.jsonl", *rows)


def test_an_appended_row_stays_and_a_key_is_there_once(home: ThreeHome) -> None:
    home.pipeline(PIPELINE.replace(', unique_key="id"', ""))
    refused = home.tallyman("run")
    assert (refused.code, "unique_key" in refused.json["error"]["message"]) == (2, True)

    lines(home.pipeline(PIPELINE), ("a", 1), ("b", 2), ("b", 3))
    first = home.ok("run", "--run-id", "first")
    assert first["published"] == {"log": 1, "read": 1}
    assert home.ok("verify", "first")["balanced"]  # the row that was not new has its fate too
    assert [row[1] for row in home.rows("log")] == ["a", "b"]

    # a is gone from the input, b has another value, c is new.
    lines(home, ("b", 20), ("c", 30))
    second = home.ok("run", "--run-id", "second")
    assert second["published"] == {"log": 2, "read": 2}
    appended = [("a", 1), ("b", 2), ("c", 30)]
    assert home.rows("read") == appended
    assert [row[1:] for row in home.outside("log") or ()] == [("a", 1), ("b", 2), ("c", 30)]
    [version, _] = home.ok("versions", "log")
    assert (version["operation"], version["rows"]) == ("append", 3)

    again = home.ok("run")
    assert (statuses(again), again["commit"]) == ({"log": "skipped", "read": "skipped"}, None)
    forced = home.ok("run", "log", "--force")
    assert (forced["published"], home.heads()) == ({}, {"log": 2, "read": 2})
    assert home.rows("read") == appended

    home.ok("rollback", "log", "--to", "1")
    assert [row[1] for row in home.rows("log")] == ["a", "b"]
    assert home.ok("run", "log")["published"] == {"log": 4}
    assert sorted(row[1:] for row in home.rows("log")) == appended

    assert home.ok("verify", "latest")["balanced"]
    assert home.damaged() == []
