"""The reaction: a partition of 1,000 rows lands, and a chain of assets follows to its end."""

from __future__ import annotations

from collections.abc import Callable

from tests.workers.service import Service
from tests.world.waiting import wait_until

PIPELINE = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)
days = tm.daily("day", start="2025-01-01")


@tm.asset(key="id", partitioned_by=days)
def landed(raw):
    return raw


@tm.asset(key="id", partitioned_by=days, trigger="event")
def clean(landed):
    return landed.filter("n % 10 > 0", reason="tenth")


@tm.asset(key="day", partitioned_by=days, trigger="event")
def totals(clean):
    return clean.groupBy("day").agg(total="sum(n)", orders="count(*)")


@tm.asset(key="day", trigger="event", priority=10)
def board(totals):
    return totals.withColumn("mean", "total / orders")
"""
CHAIN = ["clean", "totals", "board"]


def followed(service: Service, trigger: str) -> list[tuple[object, ...]]:
    """List the tasks that nobody asked for: asset, partition, status."""
    return service.home.query(
        "SELECT asset, scope ->> 'partition_key', status FROM tasks WHERE trigger = %s "
        "ORDER BY created_at, asset",
        trigger,
    )


def test_a_chain_follows_a_partition_to_its_end(new_service: Callable[[], Service]) -> None:
    service = new_service()
    home = service.home.pipeline(PIPELINE).numbers("2025-02-01", *range(1000))
    service.server()
    service.worker()
    result = service.run("landing", "landed", "--partition", "2025-02-01")
    assert [made["rows_out"] for made in result["assets"]] == [1000]
    wait_until(lambda: home.heads().get("board"))
    day = "d:2025-02-01"
    expected = [("clean", day), ("totals", day), ("board", None)]
    wait_until(lambda: {row[2] for row in followed(service, "event")} == {"Completed"})
    assert [row[:2] for row in followed(service, "event")] == expected
    assert [row[1:] for row in home.rows("board")] == [(450_000, 900, 500.0)]
    assert {name: home.heads()[name] for name in CHAIN} == dict.fromkeys(CHAIN, 1)
    for commit in home.ok("commits"):
        service.ended(commit["run"])  # a run is sealed soon after its last task completed
        home.ok("verify", "run", commit["run"])
    assert home.damaged() == []

    # The same again changes nothing, and nothing follows.
    service.run("again", "landed", "--partition", "2025-02-01")
    assert len(followed(service, "event")) == 3

    # An invalidated result is made again; its content is the same, so the chain ends there.
    assert home.ok("invalidate", "clean", "--partition", "2025-02-01")["invalidated"] == 1
    wait_until(lambda: [row[2] for row in followed(service, "invalidation")] == ["Completed"])
    assert [row[:2] for row in followed(service, "invalidation")] == [("clean", day)]
