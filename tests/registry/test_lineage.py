"""Lineage from rows as runs leave them: up by what was consumed, down by who consumed it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tallyman.domain.history.lineage import Reached
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound
from tallyman.registry.database import Database
from tallyman.registry.run.lineage import DEPTH_CAP, DOWN, IMPACT_BY_ASSET, UP, Lineage
from tests.registry.conftest import History, Made

RAW = Made("raw")
OWNER = Owner("default", "test")
FIRST, SECOND = "d:2025-01-01", "d:2025-01-02"
Asked = list[tuple[str, str | None, int]]


def seen(reached: list[Reached]) -> Asked:
    return [(r.asset, r.partition, r.depth) for r in reached]


@pytest.fixture
def lineage(database: Database) -> Iterator[Lineage]:
    with database.transaction() as tx:
        yield Lineage(tx, OWNER)


@pytest.fixture
def scenario(history: History) -> History:
    """raw → numbers → doubled → sum, for two days."""
    for partition in (FIRST, SECOND):
        history.begin()
        numbers = history.add("numbers", partition, reads=(RAW,))
        doubled = history.add("doubled", partition, reads=(numbers,))
        history.add("sum", partition, reads=(doubled,))
    return history


# ---- the reference scenario ------------------------------------------------------------------


@pytest.mark.usefixtures("scenario")
def test_impact_of_a_partition_stays_in_that_partition(lineage: Lineage) -> None:
    assert lineage.impact("numbers", FIRST) == [
        Reached(asset="doubled", partition=FIRST, kind="asset", depth=1, status="success"),
        Reached(asset="sum", partition=FIRST, kind="asset", depth=2, status="success"),
    ]


@pytest.mark.usefixtures("scenario")
def test_up_ends_at_the_source(lineage: Lineage) -> None:
    assert lineage.up("sum", FIRST) == [
        Reached(asset="doubled", partition=FIRST, kind="asset", depth=1, status="success"),
        Reached(asset="numbers", partition=FIRST, kind="asset", depth=2, status="success"),
        Reached(asset="raw", partition=None, kind="source", depth=3, status=None),
    ]


@pytest.mark.usefixtures("scenario")
def test_down_from_a_source_reaches_all_partitions(lineage: Lineage) -> None:
    assert seen(lineage.down("raw")) == [
        (asset, partition, depth)
        for depth, asset in enumerate(("numbers", "doubled", "sum"), 1)
        for partition in (FIRST, SECOND)
    ]


@pytest.mark.usefixtures("scenario")
def test_without_a_partition_down_starts_from_all_of_them(lineage: Lineage) -> None:
    both = [("sum", FIRST, 1), ("sum", SECOND, 1)]
    assert seen(lineage.down("doubled")) == seen(lineage.impact("doubled")) == both
    assert lineage.down("sum") == []


# ---- what makes an edge ----------------------------------------------------------------------


def test_a_failed_asset_leaves_no_edges(history: History, lineage: Lineage) -> None:
    numbers = history.add("numbers", reads=(RAW,))
    history.add("doubled", reads=(numbers,), status="failed")
    assert lineage.down("numbers") == []
    assert lineage.impact("numbers", granularity="asset") == []
    assert seen(lineage.down("raw")) == [("numbers", None, 1)]


def test_a_skipped_asset_adds_nothing_and_is_the_latest_status(
    history: History, lineage: Lineage
) -> None:
    numbers = history.add("numbers")
    doubled = history.add("doubled", reads=(numbers,))
    history.begin()
    history.add("doubled", reads=(numbers,), status="skipped", reused=doubled)
    assert seen(lineage.down("numbers")) == [("doubled", None, 1)]
    assert [r.status for r in lineage.down("numbers")] == ["skipped"]


def test_status_is_the_latest_though_it_failed(history: History, lineage: Lineage) -> None:
    numbers = history.add("numbers")
    doubled = history.add("doubled", reads=(numbers,))
    history.add("sum", reads=(doubled,))
    history.begin()
    history.add("doubled", status="failed")
    statuses = {"doubled": "failed", "sum": "success"}
    assert {r.asset: r.status for r in lineage.impact("numbers")} == statuses
    assert {r.asset: r.status for r in lineage.impact("numbers", None, "asset")} == statuses
    assert {r.asset: r.status for r in lineage.up("sum")} == {
        "doubled": "failed",
        "numbers": "success",
    }


def test_up_follows_what_was_consumed_and_not_what_is_newest(
    history: History, lineage: Lineage
) -> None:
    old = history.add("numbers", reads=(Made("old_feed"),))
    history.add("doubled", reads=(old,))
    history.begin()
    history.add("numbers", reads=(Made("new_feed"),))
    assert seen(lineage.up("doubled")) == [("numbers", None, 1), ("old_feed", None, 2)]
    assert seen(lineage.up("numbers")) == [("new_feed", None, 1)]


# ---- shapes ----------------------------------------------------------------------------------


def test_a_diamond_is_listed_once_with_the_smallest_depth(
    history: History, lineage: Lineage
) -> None:
    a = history.add("a", reads=(RAW,))
    b = history.add("b", reads=(a,))
    c = history.add("c", reads=(b,))
    history.add("d", reads=(a, c))
    assert seen(lineage.down("a")) == [("b", None, 1), ("d", None, 1), ("c", None, 2)]
    assert seen(lineage.impact("a", None, "asset")) == seen(lineage.down("a"))
    above = [("a", None, 1), ("c", None, 1), ("b", None, 2), ("raw", None, 2)]
    assert seen(lineage.up("d")) == above


def test_an_unpartitioned_consumer_is_reached_from_each_partition_it_read(
    scenario: History, lineage: Lineage
) -> None:
    scenario.begin()
    days = tuple(scenario.add("sum", partition) for partition in (FIRST, SECOND))
    unread = scenario.add("sum", "d:2025-01-03")
    scenario.add("total", reads=days)
    for day in days:
        assert seen(lineage.down("sum", day.partition)) == [("total", None, 1)]
    assert lineage.down("sum", unread.partition) == []
    assert seen(lineage.up("total")) == [("sum", FIRST, 1), ("sum", SECOND, 1)]


def test_a_partition_may_read_the_one_before(history: History, lineage: Lineage) -> None:
    day = history.add("balance", FIRST)
    for partition in (SECOND, "d:2025-01-03"):
        day = history.add("balance", partition, reads=(day,))
    assert seen(lineage.down("balance", FIRST)) == [
        ("balance", SECOND, 1),
        ("balance", "d:2025-01-03", 2),
    ]
    assert seen(lineage.up("balance", SECOND)) == [("balance", FIRST, 1)]


def test_dependencies_that_changed_direction_do_not_go_round(
    history: History, lineage: Lineage
) -> None:
    history.add("b", reads=(history.add("a"),))
    history.begin()
    history.add("a", reads=(history.add("b"),))
    assert seen(lineage.down("a")) == [("b", None, 1)]
    assert seen(lineage.impact("b", None, "asset")) == [("a", None, 1)]


def test_a_walk_ends_at_the_depth_cap(history: History, lineage: Lineage) -> None:
    made = history.add("a000", reads=(RAW,))
    for n in range(1, DEPTH_CAP + 5):
        made = history.add(f"a{n:03}", reads=(made,))
    for found in (
        lineage.up(made.asset),
        lineage.down("a000"),
        lineage.impact("a000", None, "asset"),
    ):
        assert [r.depth for r in found] == list(range(1, DEPTH_CAP + 1))


# ---- what is not there -----------------------------------------------------------------------


@pytest.mark.usefixtures("scenario")
@pytest.mark.parametrize("walk", [Lineage.up, Lineage.down, Lineage.impact])
def test_an_unknown_name_is_not_found_and_the_nearest_is_named(
    lineage: Lineage, walk: Callable[..., list[Reached]]
) -> None:
    with pytest.raises(NotFound) as unknown:
        walk(lineage, "summ")
    assert (unknown.value.name, unknown.value.nearest) == ("summ", "sum")


@pytest.mark.usefixtures("scenario")
@pytest.mark.parametrize("walk", [Lineage.up, Lineage.down, Lineage.impact])
def test_an_unknown_partition_is_not_found_and_the_nearest_is_named(
    lineage: Lineage, walk: Callable[..., list[Reached]]
) -> None:
    with pytest.raises(NotFound, match="'sum' in partition '2025-01-02'") as unknown:
        walk(lineage, "sum", "2025-01-02")
    assert unknown.value.nearest == SECOND


def test_a_source_may_be_read_by_partition(history: History, lineage: Lineage) -> None:
    for partition in (FIRST, SECOND):
        history.add("numbers", partition, reads=(Made("feed", partition),))
    assert seen(lineage.down("feed", FIRST)) == [("numbers", FIRST, 1)]
    assert seen(lineage.down("feed")) == [("numbers", FIRST, 1), ("numbers", SECOND, 1)]
    with pytest.raises(NotFound) as unknown:
        lineage.down("feed", "2025-01-01")
    assert unknown.value.nearest == FIRST


def test_what_only_failed_has_no_upstream_but_an_empty_downstream(
    history: History, lineage: Lineage
) -> None:
    history.add("numbers", status="failed")
    with pytest.raises(NotFound, match="no success of 'numbers'"):
        lineage.up("numbers")
    assert lineage.down("numbers") == []


# ---- plans -----------------------------------------------------------------------------------

MANY_RUNS = """
    INSERT INTO runs (id, name, org, project, status, folder, actor, started_at)
    SELECT md5('run' || n)::uuid, 'run' || n, 'default', 'test', 'success', 'run' || n,
           'test', now()
    FROM generate_series(1, 1000) AS n
"""
# 20 assets in a row, 1,000 partitions.
MANY_ROWS = """
    INSERT INTO materializations (
        id, org, project, asset_name, partition, run_id, status, completed_at, upstream_assets,
        upstream_partitions, upstream_ids, definition_hash, dependency_hash, content_digest,
        location
    )
    SELECT md5(n || '/' || a)::uuid, 'default', 'test', 'asset' || a, 'p' || n,
           md5('run' || n)::uuid, 'success', now(), ARRAY['asset' || a - 1], ARRAY['p' || n],
           ARRAY[md5(n || '/' || a - 1)::uuid], 'def', 'dep', 'content', 'runs/r/a/output'
    FROM generate_series(1, 1000) AS n, generate_series(1, 20) AS a
"""


@pytest.fixture
def plan(database: Database) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """The nodes of a query's plan that were executed, in a history of 20,000 rows."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        for statement in (MANY_RUNS, MANY_ROWS, "ANALYZE"):
            owner.execute(statement)

        def explained(sql: str, **given: object) -> list[dict[str, Any]]:
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()
            [[[found]]] = owner.execute(
                explain, {**OWNER.key, **given, "cap": DEPTH_CAP}
            ).fetchall()
            return [node for node in nodes(found["Plan"]) if node["Actual Loops"]]

        yield explained


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def uses(plan: list[dict[str, Any]], kind: str, index: str) -> bool:
    return any(n["Node Type"] == kind and n.get("Index Name") == index for n in plan)


def reads_all(plan: list[dict[str, Any]]) -> bool:
    return any(n["Node Type"] == "Seq Scan" for n in plan)


def test_every_walk_finds_its_rows_by_an_index(
    plan: Callable[..., list[dict[str, Any]]],
) -> None:
    by_pair = "\x1f".join(("default", "test", "asset10", "p500"))
    down, impact = plan(DOWN, pairs=[by_pair]), plan(IMPACT_BY_ASSET, assets=["test\x1fasset10"])
    up = plan(UP, asset="asset20", partition="p500")
    for found, kind, index in (
        (down, "Bitmap Index Scan", "idx_materializations_upstream_pairs"),
        (impact, "Bitmap Index Scan", "idx_materializations_upstream_assets"),
        (up, "Index Scan", "materializations_pkey"),
    ):
        assert uses(found, kind, index), json.dumps(found, indent=1)
    assert not reads_all(down)
    assert not reads_all(up)
