"""Who is woken, and when: a place that is free is filled, and nobody is woken in vain."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from tallyman.control.dispatch import operate, steps
from tallyman.control.dispatch.claim import Claimed, claim_next
from tallyman.control.dispatch.loops import Loop
from tallyman.errors import DatabaseUnavailable, InUse
from tallyman.registry.task.backlog import backlog
from tallyman.registry.task.outbox import MOST_FAILURES
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.queue import MOST_DROPPED
from tallyman.registry.task.tasks import Tasks
from tests.dispatch.desk import Desk, fence_of
from tests.world.waiting import wait_until


def messages(desk: Desk) -> int:
    return desk.rows("SELECT count(*) AS n FROM queue_messages")[0]["n"]


def send_all(desk: Desk) -> None:
    while desk.drain():
        pass


def claimed(desk: Desk, *pools: str) -> Claimed:
    found = desk.claim_next(pools=pools or ("default",))
    assert isinstance(found, Claimed), found
    return found


# ---- claims ---------------------------------------------------------------------------------


def test_messages_of_a_full_pool_stay_and_other_pools_go_on(desk: Desk) -> None:
    desk.pool("api", [{}, {}])
    desk.add(300, pool="api", priority=9)
    [other] = desk.add()
    send_all(desk)
    held = [claimed(desk, "api") for _ in range(2)]
    assert desk.claim_next(pools=("api",)).reason == "Empty"
    assert messages(desk) == 299
    assert claimed(desk, "api", "default").task.id == other
    desk.complete(fence_of(held[0]))
    assert claimed(desk, "api").task.pool == "api"  # nobody had to send anything again


def test_a_claim_that_waits_for_a_slot_gets_it_when_one_is_free(desk: Desk) -> None:
    desk.pool("api", [{}])
    desk.add(3, pool="api")
    send_all(desk)
    held = claimed(desk, "api")
    begun = threading.Event()

    def wait() -> object:
        begun.set()
        return claim_next(desk.queue, desk.owner, ["api"], "waits", 60)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wait)
        begun.wait()
        desk.complete(fence_of(held))
        send_all(desk)
        assert isinstance(waiting.result(60), Claimed)


@pytest.mark.parametrize("draining", [False, True])
def test_a_claim_drops_so_many_messages_and_no_more(desk: Desk, draining: bool) -> None:
    desk.add(MOST_DROPPED + 20, max_concurrency=1)
    send_all(desk)
    claimed(desk)
    if draining:
        desk.queue.close()
    # Its time is over at once, or the server is about to end: it does not go through all of them.
    assert desk.claim_next(wait_s=3600 if draining else 0).reason == "Empty"
    assert messages(desk) == 19
    if not draining:
        assert desk.claim_next().reason == "Empty"
        assert messages(desk) == 0


def test_the_most_urgent_task_of_all_pools_comes_first(desk: Desk) -> None:
    desk.pool("urgent", None)
    [first] = desk.add()
    send_all(desk)
    [second] = desk.add(pool="urgent")
    send_all(desk)
    [third] = desk.add()
    [hurry] = desk.add(pool="urgent", priority=100)
    send_all(desk)
    found = [claimed(desk, "default", "urgent").task.id for _ in range(4)]
    assert found == [hurry, first, second, third]  # and then those that wait longest


# ---- the next one ---------------------------------------------------------------------------


@pytest.mark.parametrize("sent_between", [False, True])
def test_two_ends_wake_two_tasks(desk: Desk, sent_between: bool) -> None:
    desk.add(6, max_concurrency=2)
    send_all(desk)
    held = [claimed(desk) for _ in range(2)]
    assert desk.claim_next().reason == "Empty"
    assert messages(desk) == 0
    for one in held:
        desk.complete(fence_of(one))
        if sent_between:
            send_all(desk)
    send_all(desk)
    assert [claimed(desk).task.asset for _ in range(2)] == ["orders"] * 2
    assert desk.claim_next().reason == "Empty"


def test_an_end_wakes_nobody_if_enough_are_awake(desk: Desk) -> None:
    desk.add(10, max_concurrency=2)
    send_all(desk)
    desk.complete(fence_of(claimed(desk)))
    assert desk.rows("SELECT task_id FROM outbox WHERE status = 'Pending'") == []
    assert messages(desk) == 9


# ---- the sweep ------------------------------------------------------------------------------


def test_the_sweep_waits_after_each_step_also_if_it_found_work() -> None:
    stop, waits = threading.Event(), list[float | None]()

    class Nudge(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            stop.set()
            return True

    def step() -> int:
        if loop.taken >= 3:
            stop.set()
        return 7

    loop = Loop("sweep", 1.0, step, paced=True, nudge=Nudge())
    loop.run(stop)
    assert (loop.taken, loop.found, waits) == (1, 7, [1.0])


def test_the_sweep_wakes_nobody_whose_message_is_there(desk: Desk) -> None:
    desk.pool("api", [{}, {}])
    desk.add(5, pool="api")
    desk.add(5)
    send_all(desk)
    assert steps.sweep(desk.database, lost_s=0, slot_s=0) == 0
    desk.rows("DELETE FROM queue_messages RETURNING id")
    assert steps.sweep(desk.database, lost_s=0, slot_s=0) == 2 + 5


def test_the_sweep_wakes_as_many_of_an_asset_as_it_may_run_more(desk: Desk) -> None:
    desk.add(6, max_concurrency=2)
    send_all(desk)
    held = [claimed(desk) for _ in range(2)]
    assert desk.claim_next().reason == "Empty"
    assert steps.sweep(desk.database, lost_s=0, slot_s=0) == 0
    desk.complete(fence_of(held[0]))
    desk.rows("DELETE FROM outbox RETURNING task_id")  # what the end woke gets lost
    assert steps.sweep(desk.database, lost_s=0, slot_s=0) == 1
    send_all(desk)
    claimed(desk)


# ---- a queue that cannot be reached -----------------------------------------------------------


def test_a_queue_that_fails_is_tried_less_and_less_and_never_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    [task] = desk.add()
    tries = 0

    def broken(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise OSError("no route to the queue")

    with monkeypatch.context() as patch:
        patch.setattr(desk.queue, "send", broken)
        for _ in range(MOST_FAILURES):
            assert desk.drain() == 0
            state = row(desk)
            due(desk)
        assert state == {
            "status": "Failed", "failures": 20, "last_error": "no route to the queue",
            "later": True,
        }  # fmt: skip
        with desk.database.transaction() as tx:
            assert "1 not announced" in str(backlog(tx, desk.owner))
        desk.drain()
        assert row(desk)["status"] == "Failed"
        desk.drain()  # not before its pause is over
        assert tries == MOST_FAILURES + 1
    due(desk)
    assert desk.drain() == 1
    assert row(desk) == {"status": "Done", "failures": 0, "last_error": None, "later": False}
    assert claimed(desk).task.id == task


def due(desk: Desk) -> None:
    desk.rows("UPDATE outbox SET next_try_at = clock_timestamp() RETURNING task_id")


def row(desk: Desk) -> dict[str, object]:
    later = "next_try_at > clock_timestamp() + interval '4 minutes' AS later"
    [found] = desk.rows(f"SELECT status, failures, last_error, {later} FROM outbox")
    return found


def test_a_new_reason_begins_again_and_an_outage_of_the_database_does_not_count(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    [task] = desk.add()

    def unavailable(*_: object) -> None:
        raise DatabaseUnavailable("here", "too many clients already")

    with monkeypatch.context() as patch:
        patch.setattr(desk.queue, "send", unavailable)
        for _ in range(MOST_FAILURES):
            with pytest.raises(DatabaseUnavailable):
                desk.drain()
    assert (row(desk)["status"], row(desk)["failures"]) == ("Pending", 0)
    desk.rows(
        "UPDATE outbox SET status = 'Failed', failures = 20, "
        "next_try_at = clock_timestamp() + interval '1 day' RETURNING task_id"
    )
    assert desk.drain() == 0
    hold_and_release(desk, task)
    assert desk.drain() == 1
    assert claimed(desk).task.id == task


def hold_and_release(desk: Desk, task: UUID) -> None:
    with desk.database.transaction() as tx:
        operate.hold(tx, desk.owner, [task], "a person")
        assert operate.release(tx, desk.owner, "a person") == 1


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
