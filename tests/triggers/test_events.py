"""Events are rows of the commit: every publication makes the tasks of those who follow it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tallyman.control.dispatch import steps
from tallyman.registry.task.pools import Pools
from tests.pipelines.conftest import NewPipeline, new_pipeline
from tests.world.home import Home
from tests.world.homes import Homes

__all__ = ["new_pipeline"]

SHOP = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, day date, n int")
tm.table("rates", schema="code string, rate int", key="code")


@tm.asset(key="id", partitioned_by=tm.daily("day", "2026-01-01", "2026-01-31"))
def clean(raw):
    return raw


@tm.asset(key="id", partitioned_by=tm.daily("day", "2026-01-01", "2026-01-10"),
          trigger="event", priority=7, retry=tm.retry(5, timeout="9m", backoff="2s"))
def twice(clean):
    return clean.withColumn("n", "n * 2")


@tm.asset(key="n", trigger="event", max_concurrency=1)
def totals(clean, rates):
    return clean.groupBy("n").agg(ids="count(*)")


@tm.asset(key="n", trigger=tm.schedule("0 2 * * *", timezone="Europe/Amsterdam"))
def nightly(totals):
    return totals.filter("n > 0", reason="none")
"""
DAYS = (1, 2, 20)
RAW = [{"id": f"{day}-{n}", "day": f"2026-01-{day:02}", "n": n} for day in DAYS for n in (1, 2)]
RATES = {"statements": [{"insert": {"into": "rates", "rows": [{"code": "a", "rate": 1}]}}]}
FIRST, SECOND, LATE = "d:2026-01-01", "d:2026-01-02", "d:2026-01-20"


@pytest.fixture
def shop(homes: Homes) -> Home:
    return homes.make(Home, "shop").pipeline(SHOP).data("raw.jsonl", *RAW)


def tasks(home: Home, status: str = "Queued") -> list[tuple[Any, ...]]:
    """Asset, partition and trigger of the tasks of all pipelines."""
    return home.query(
        "SELECT asset, scope ->> 'partition_key', trigger FROM tasks WHERE status = %s "
        "ORDER BY asset, 2 NULLS FIRST, created_at",
        status,
    )


def events(home: Home) -> list[tuple[Any, ...]]:
    return home.query(
        "SELECT d.name, e.scope_text FROM events e JOIN datasets d ON d.id = e.dataset "
        "ORDER BY e.seq"
    )


def forget_tasks(home: Home) -> None:
    home.query("DELETE FROM tasks RETURNING id")


def listening(home: Home) -> list[tuple[Any, ...]]:
    return home.query(
        "SELECT l.asset, d.name FROM listeners l JOIN datasets d ON d.id = l.dataset ORDER BY 1, 2"
    )


def mutate(home: Home, statements: dict[str, Any], **more: str) -> Any:
    (home.path / "m.json").write_text(json.dumps(statements))
    return home.tallyman("mutate", "m.json", **more)


def test_every_commit_makes_the_tasks_of_those_who_follow_it(shop: Home) -> None:
    shop.ok("run", "clean", "--partition", "2026-01-01")
    assert listening(shop) == [("totals", "clean"), ("twice", "clean")]
    assert events(shop) == [("clean", f"p:{FIRST}")]
    assert tasks(shop) == [("totals", None, "event"), ("twice", FIRST, "event")]
    [template] = shop.query(
        "SELECT priority, max_attempts, retry_delays_s, timeout_s, pool, kind, pipeline_version "
        "FROM tasks WHERE asset = 'twice'"
    )
    active = shop.query("SELECT active_version FROM pipelines")[0][0]
    assert template == (7, 5, [2, 6, 18, 54], 540, "default", "target", active)
    assert shop.query("SELECT max_concurrency FROM tasks WHERE asset = 'totals'") == [(1,)]

    # Nothing new, nothing said.
    shop.ok("run", "clean", "--partition", "2026-01-01")
    assert len(events(shop)) == 1
    # A day that a listener does not have makes no task of it; one that reads all of it is made.
    forget_tasks(shop)
    shop.ok("run", "clean", "--partition", "2026-01-20")
    assert tasks(shop) == [("totals", None, "event")]

    # A table has its first version: from now on its listeners follow it, beginning with this one.
    forget_tasks(shop)
    assert mutate(shop, RATES).code == 0
    assert listening(shop)[1:] == [("totals", "rates"), ("twice", "clean")]
    assert events(shop)[2:] == [("rates", "w")]
    assert tasks(shop) == [("totals", None, "event")]
    (shop.path / "r.csv").write_text("code,rate\nb,2\n")
    shop.ok("load", "rates", "r.csv")
    assert len(tasks(shop)) == 2, "never batched"

    # A rollback is a commit like any other. The day that is gone is news about the whole.
    forget_tasks(shop)
    first = shop.ok("commits")[-1]["id"]
    shop.ok("rollback", "--commit", first)
    assert events(shop)[4:] == [("clean", "w")], "the table was removed: it has no content"
    assert tasks(shop) == [("totals", None, "event")]


def test_a_commit_that_is_not_made_says_nothing(shop: Home) -> None:
    shop.ok("run", "clean", "--partition", "2026-01-01")
    assert mutate(shop, RATES).code == 0
    before = shop.count("events", "tasks")
    more = {"statements": [{"delete": {"from": "rates", "where": "true"}}]}
    assert mutate(shop, more, TALLYMAN_CRASH_AT="metadata_written").code == -9
    assert shop.count("events", "tasks") == before
    # The reply was lost, not the commit: it is not said twice.
    assert mutate(shop, more, TALLYMAN_CRASH_AT="committed").code == -9
    assert shop.count("events")["events"] == before["events"] + 1
    [(producer, commit)] = shop.query(
        "SELECT e.producer_task, v.commit_id FROM events e JOIN versions v ON v.id = e.version "
        "ORDER BY e.seq DESC LIMIT 1"
    )
    assert producer == commit


def test_listeners_and_schedules_are_those_of_the_active_version(shop: Home) -> None:
    shop.ok("run", "clean", "--partition", "2026-01-01")
    first = shop.ok("commits")[0]["id"]
    one = shop.query("SELECT active_version FROM pipelines")[0][0]
    plan = "SELECT name, cron, timezone, next_at, template ->> 'pipeline_version' FROM schedules"
    [(name, cron, zone, next_at, version)] = shop.query(plan)
    assert (name, cron, zone, version) == ("nightly", "0 2 * * *", "Europe/Amsterdam", one)

    # Another version: `twice` does not follow any more, `nightly` ticks as before.
    shop.edit('trigger="event", priority=7', "priority=8").edit("n > 0", "n > 1")
    shop.data("raw.jsonl", *RAW[:1])
    shop.ok("run", "clean", "--partition", "2026-01-01")
    two = shop.query("SELECT active_version FROM pipelines")[0][0]
    assert two != one
    assert listening(shop) == [("totals", "clean")]
    assert shop.query(plan) == [(name, cron, zone, next_at, two)]
    assert tasks(shop) == [("totals", None, "event"), ("totals", None, "event")]
    assert shop.query("SELECT DISTINCT pipeline_version FROM tasks WHERE status = 'Queued'") == [
        (two,)
    ]
    assert tasks(shop, "Canceled") == [("twice", FIRST, "event")]
    [(error,)] = shop.query("SELECT error FROM tasks WHERE status = 'Canceled'")
    assert error == {
        "code": "trigger_gone",
        "message": f"its asset has no trigger in pipeline version {two[:8]}",
    }

    # Back: what was active then is active now, and the commit itself is an event.
    forget_tasks(shop)
    shop.ok("rollback", "--commit", first)
    assert listening(shop) == [("totals", "clean"), ("twice", "clean")]
    assert shop.query(plan) == [(name, cron, zone, next_at, one)]
    assert tasks(shop) == [("totals", None, "event"), ("twice", FIRST, "event")]

    # A version without triggers has neither.
    shop.pipeline(re.sub(r'trigger=("event"|tm.schedule[^)]*[)])', 'trigger="manual"', SHOP))
    shop.data("raw.jsonl", *RAW)
    shop.ok("run", "clean", "--partition", "2026-01-01")
    assert (listening(shop), shop.query(plan), tasks(shop)) == ([], [], [])


def test_a_tick_makes_a_task_and_the_missed_ones_only_one(shop: Home) -> None:
    shop.ok("run", "clean", "--partition", "2026-01-01")
    forget_tasks(shop)
    database = shop.project.database
    assert steps.tick(database) == 0
    shop.query("UPDATE schedules SET next_at = next_at - interval '9 days' RETURNING name")
    assert steps.tick(database) == 1
    assert steps.tick(database) == 0
    assert tasks(shop) == [("nightly", None, "schedule")]
    [(at,)] = shop.query("SELECT (next_at AT TIME ZONE timezone)::time::text FROM schedules")
    assert at == "02:00:00"


def test_what_is_invalidated_is_made_again_by_those_who_follow(shop: Home) -> None:
    assert mutate(shop, RATES).code == 0
    shop.ok("run", "clean", "twice", "totals", "nightly", "--partition", "2026-01-01")
    forget_tasks(shop)
    assert shop.ok("invalidate", "clean", "--partition", "2026-01-01") == {"invalidated": 1}
    assert tasks(shop) == [], "it follows nothing"
    assert shop.ok("invalidate", "twice", "--partition", "2026-01-01") == {"invalidated": 1}
    assert tasks(shop) == [("twice", FIRST, "invalidation")]
    assert shop.ok("invalidate", "twice", "--partition", "2026-01-01") == {"invalidated": 0}
    assert len(tasks(shop)) == 1
    found = shop.ok("invalidate", "clean", "--partition", "2026-01-01", "--cascade")
    assert found == {"invalidated": 2}, "totals, and nightly, which does not follow"
    assert tasks(shop)[0] == ("totals", None, "invalidation")
    assert len(tasks(shop)) == 2


def test_a_pool_has_to_be_there_before_a_run_begins(shop: Home) -> None:
    shop.edit("max_concurrency=1", 'pool="smal"')
    refused = shop.printed("run", "clean", "--partition", "2026-01-01")
    assert refused.code == 2
    assert "asset totals names the pool 'smal', which is not there" in refused.stderr
    assert "tallyman pools set smal" in refused.stderr
    assert shop.count("runs", "tasks") == {"runs": 0, "tasks": 0}
    project = shop.project
    with project.database.transaction() as tx:
        Pools(tx).define(project.workspace.owner, "smal", [{}])
    shop.ok("run", "clean", "--partition", "2026-01-01")
    assert shop.query("SELECT pool FROM tasks WHERE asset = 'totals'") == [("smal",)]


READER = """\
import tallyman as tm

tm.source("own", "data/own.jsonl", "json", key="id", schema="id string")
tm.dataset("shop_totals", name="totals")
tm.dataset("days")


@tm.asset(key="id")
def plain(own):
    return own


@tm.asset(key="n", trigger="event")
def board(totals):
    return totals


@tm.asset(key="id", trigger="event", partitioned_by=tm.daily("day", "2026-01-01"))
def calendar(days):
    return days
"""
MAKER = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, day date, n int")


@tm.asset(key="n", publish="shop_totals")
def totals(raw):
    return raw.groupBy("n").agg(ids="count(*)")


@tm.asset(key="id", publish=False, partitioned_by=tm.daily("day", "2026-01-01"))
def days(raw):
    return raw
"""


def test_listeners_follow_datasets_of_other_pipelines(new_pipeline: NewPipeline) -> None:
    """Also those that are made, or shown, after the listener was activated."""
    maker = new_pipeline("maker").pipeline(MAKER).data("raw.jsonl", *RAW)
    reader = new_pipeline("reader").pipeline(READER).data("own.jsonl", {"id": "x"})
    reader.ok("run", "plain")
    assert listening(reader) == []
    maker.ok("run", "totals", "days", "--partition", "2026-01-02")
    assert listening(reader) == [("board", "shop_totals")], "the other one is hidden"
    assert tasks(reader) == [("board", None, "event")]
    assert reader.query("SELECT project FROM tasks") == [("reader",)]

    maker.ok("expose", "days")
    assert listening(reader) == [("board", "shop_totals"), ("calendar", "days")]
    forget_tasks(reader)
    maker.ok("run", "days", "--partition", "2026-01-01")
    assert tasks(reader) == [("calendar", FIRST, "event")]
    assert SECOND not in str(tasks(reader))
    # Events of the reader make nothing of the maker.
    forget_tasks(reader)
    reader.ok("run", "board")
    assert tasks(reader) == []
