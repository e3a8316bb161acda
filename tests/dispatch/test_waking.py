"""Who is woken, and when: a place that is free is filled, and nobody is woken in vain."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from tallyman.control.dispatch import claim, operate
from tallyman.control.dispatch.claim import Claimed
from tallyman.errors import InUse
from tallyman.registry.task import wakeups
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import LOCK_NEXT, Tasks
from tests.dispatch.desk import Desk, fence_of
from tests.world.waiting import wait_until


def claimed(desk: Desk, *pools: str, wait_s: float = 0) -> Claimed:
    found = desk.claim_next(wait_s, pools or ("default",))
    assert isinstance(found, Claimed), found
    return found


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by itself: whoever gets a task was woken."""
    monkeypatch.setattr(claim, "POLL_S", 3600.0)


class SeenWaiter(wakeups.Waiter):
    looks, waits = 0, False

    def look(self, work: Any) -> Any:
        self.looks += 1
        return super().look(work)

    def wait(self, timeout: float) -> None:
        self.waits = True
        super().wait(timeout)
        self.waits = False


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "Waiter", SeenWaiter)


@contextmanager
def waiting(desk: Desk, count: int, *pools: str) -> Iterator[list[Any]]:
    """Have claims wait, until all of them do."""
    before = len(idle(desk))
    with ThreadPoolExecutor(count) as threads:
        found = [threads.submit(claimed, desk, *pools, wait_s=60) for _ in range(count)]
        wait_until(lambda: len(idle(desk)) == before + count)
        yield found


def idle(desk: Desk) -> list[SeenWaiter]:
    """The claims that have looked, and wait now."""
    there = list(desk.wakeups._waiters)
    return [one for one in there if isinstance(one, SeenWaiter) and one.waits]


# ---- what a claim gets ------------------------------------------------------------------------


def test_the_most_urgent_task_of_all_pools_comes_first(desk: Desk) -> None:
    desk.pool("urgent", None)
    [first] = desk.add()
    [second] = desk.add(pool="urgent")
    [third] = desk.add(asset="limited", max_concurrency=1)
    [hurry] = desk.add(pool="urgent", priority=100)
    found = [claimed(desk, "default", "urgent").task.id for _ in range(4)]
    assert found == [hurry, first, second, third]  # and then those that wait longest


def test_what_cannot_begin_hides_nothing_and_is_not_gone_through(desk: Desk) -> None:
    """Thousands of tasks of assets at their limit and of a full pool are ahead of one that may
    begin."""
    desk.pool("api", [{}])
    for n in range(5):
        desk.add(600, asset=f"limited-{n}", max_concurrency=1, priority=9)
    desk.add(1000, pool="api", priority=9)
    for _ in range(6):
        assert claimed(desk, "default", "api").task.priority == 9
    [free] = desk.add(asset="free")
    given = desk.owner.key | {"pools": ["default", "api"]}
    with desk.database.transaction() as tx:
        [plan] = tx.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {LOCK_NEXT}".encode(), given
        ).fetchall()
    assert read(plan["QUERY PLAN"][0]["Plan"]) < 50
    assert claimed(desk, "default", "api").task.id == free
    assert desk.claim_next(pools=("default", "api")).reason == "Empty"


def read(plan: dict[str, Any]) -> float:
    """Count the rows that a plan read from the table of tasks."""
    own = plan.get("Relation Name") == "tasks"
    if own:
        # No other index fits, whatever the statistics say: these tables were never analyzed.
        assert plan["Index Name"] in ("idx_tasks_queued", "idx_tasks_running")
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    return own * rows * plan["Actual Loops"] + sum(read(one) for one in plan.get("Plans", []))


def test_a_claim_that_lost_the_last_place_takes_another_task(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for a task and the count of its places, others take these."""
    desk.pool("api", [{}])
    desk.add(2, pool="api", priority=2)
    desk.add(2, asset="limited", max_concurrency=1, priority=1)
    [free] = desk.add()
    real, first, others = Tasks.lock_next, [True, True], threading.Event()

    def lock_next(self: Tasks, *given: Any) -> Any:
        found = real(self, *given)
        if first and not others.is_set():
            first.pop()
            others.set()
            claimed(desk, found.pool)
            others.clear()
        return found

    monkeypatch.setattr(Tasks, "lock_next", lock_next)
    assert claimed(desk, "api", "default").task.id == free
    assert first == []


# ---- notifications ----------------------------------------------------------------------------


def test_a_transaction_notifies_once_with_the_id_of_a_task_and_nothing_else(desk: Desk) -> None:
    desk.hear()
    with desk.database.transaction() as tx:
        tasks = [operate.create(tx, [new]) for new in desk.new(50)]
    [payload] = desk.hear()
    task = json.loads(payload)["task_id"]
    assert payload == f'{{"task_id": "{task}"}}'
    assert [UUID(task)] in tasks
    with desk.database.transaction() as tx:
        operate.hold(tx, desk.owner, [task for [task] in tasks], "a person")
    assert desk.hear() == []
    with desk.database.transaction() as tx:
        operate.release(tx, desk.owner, "a person")
    assert len(desk.hear()) == 1
    desk.complete(fence_of(claimed(desk)))  # its pool has no slots, its asset no limit
    assert desk.hear() == []


def test_a_lost_notification_costs_a_second_and_a_doubled_one_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: the task itself is the message."""
    with waiting(desk, 1) as [waits], monkeypatch.context() as patch:
        patch.setattr(wakeups, "NOTIFY_TASKS", "SELECT %(tasks)s::uuid[]")
        desk.hear()
        [task] = desk.add()
        assert desk.hear() == []
        assert waits.result(claim.POLL_S * 20).task.id == task
    desk.complete(fence_of(waits.result()))
    with waiting(desk, 1) as [waits]:
        [task] = desk.add()
        for _ in range(5):
            send = (
                "SELECT pg_notify('tallyman_tasks', jsonb_build_object('task_id', %s::text)::text)"
            )
            desk.rows(send, str(task))
        assert waits.result(60).task.id == task
    assert desk.claim_next().reason == "Empty"
    assert (desk.task(task).attempt, desk.outcomes(task)) == (1, [None])


@pytest.mark.usefixtures("no_poll")
def test_one_claim_of_those_that_can_take_the_task_is_woken(desk: Desk) -> None:
    desk.pool("other", None)
    with waiting(desk, 4) as here, waiting(desk, 3, "other") as there:
        first = idle(desk)
        looks = {id(one): one.looks for one in first}
        desk.add()
        wait_until(lambda: any(one.done() for one in here))
        # Who got it wakes another one that can, for there may be more; that one finds nothing.
        wait_until(lambda: len(idle(desk)) == 6)
        again = [one.looks - looks[id(one)] for one in first]
        assert sorted(again) == [0, 0, 0, 0, 0, 1, 1]
        assert not any(one.done() for one in there)
        desk.add(3)
        desk.add(3, pool="other")
    assert desk.rows("SELECT FROM tasks WHERE status <> 'Running'") == []


@pytest.mark.usefixtures("no_poll")
def test_fifty_tasks_of_one_transaction_wake_all_who_wait(desk: Desk) -> None:
    with waiting(desk, 8) as found:
        desk.hear()
        desk.add(50)
        assert len({one.result(60).task.id for one in found}) == 8
        listening = [one.name for one in threading.enumerate() if one.name == "wakeups"]
        assert listening == ["wakeups"]  # one connection, whoever waits
    assert len(desk.hear()) == 1


@pytest.mark.usefixtures("no_poll")
@pytest.mark.parametrize("limit", ["slots", "asset"])
def test_every_place_that_becomes_free_is_filled(desk: Desk, limit: str) -> None:
    desk.pool("api", [{}, {}])
    rest = {"pool": "api"} if limit == "slots" else {"max_concurrency": 2}
    pool = rest.get("pool", "default")
    desk.add(6, **rest)
    held = [claimed(desk, pool) for _ in range(2)]
    with waiting(desk, 2, pool) as found:
        for one in held:
            desk.complete(fence_of(one))
        assert len({one.result(60).task.id for one in found}) == 2
    assert desk.claim_next(pools=(pool,)).reason == "Empty"


@pytest.mark.usefixtures("no_poll")
def test_another_slot_of_a_pool_is_filled_at_once(desk: Desk) -> None:
    desk.pool("api", [{}])
    desk.add(2, pool="api")
    claimed(desk, "api")
    with waiting(desk, 1, "api") as [waits]:
        desk.pool("api", [{}, {}])
        assert waits.result(60).slot.index == 1


@pytest.mark.usefixtures("no_poll")
def test_a_server_that_drains_lets_those_go_who_wait(desk: Desk) -> None:
    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(desk.claim_next, 3600) for _ in range(3)]
        wait_until(lambda: len(idle(desk)) == 3)
        desk.wakeups.close()
        assert {one.result(60).reason for one in found} == {"Empty"}


# ---- slots ----------------------------------------------------------------------------------


def test_a_slot_that_is_just_taken_is_not_removed(desk: Desk) -> None:
    desk.pool("api", [{}])
    [task] = desk.add(pool="api")
    waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%slots%%'"
    with ThreadPoolExecutor(1) as threads:
        with desk.database.transaction() as tx:
            assert Pools(tx).lease(Tasks(tx).get(task, desk.owner)) is not None
            shrinks = threads.submit(desk.pool, "api", [])
            wait_until(lambda: bool(desk.rows(waits)))
        with pytest.raises(InUse, match="1 of them are taken"):
            shrinks.result(60)
    assert len(desk.rows("SELECT FROM slots WHERE task_id IS NOT NULL")) == 1
