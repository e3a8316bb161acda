"""Events, slots, schedules and upkeep: what the loops of any number of servers do."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from tallyman.control.dispatch import operate, steps
from tallyman.control.dispatch.claim import Claimed
from tallyman.control.dispatch.cron import Cron
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.state import TaskStatus
from tallyman.errors import StaleAttempt, UsageError
from tests.dispatch.desk import Desk, fence_of


def test_fifty_events_make_fifty_tasks_of_each_listener(desk: Desk) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals")
    desk.listen(dataset, "report")
    [source] = desk.add(asset="feed")
    fence = desk.claim(source)
    events = [Event(dataset=dataset, scope=Scope(cursor=str(n))) for n in range(50)]
    assert desk.emit(fence, *events[:20]).accepted == 20
    again = desk.emit(fence, *events)
    assert (again.accepted, again.duplicates, again.tasks) == (30, 20, 60)
    assert len(desk.tasks("totals")) == len(desk.tasks("report")) == 50
    assert {task.scope.cursor for task in desk.tasks("totals")} == {str(n) for n in range(50)}
    # Another attempt of the same task emits the same events; another task emits new ones.
    desk.expire(source)
    desk.requeue()
    assert desk.emit(desk.claim(source), *events).accepted == 0
    [other] = desk.add(asset="feed")
    assert desk.complete(desk.claim(other), events[0]).emitted.tasks == 2


def test_events_of_a_completion_and_the_completion_are_one_thing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals")
    [task] = desk.add()
    fence = desk.claim(task)
    before = desk.counts()

    def broken(*_: object) -> None:
        raise RuntimeError("the server died here")

    with monkeypatch.context() as patch:
        patch.setattr("tallyman.control.dispatch.report.end", broken)
        with pytest.raises(RuntimeError):
            desk.complete(fence, Event(dataset=dataset))
    assert desk.counts() == before
    assert desk.task(task).status is TaskStatus.RUNNING


def test_two_dispatchers_at_once_do_everything_once(desk: Desk) -> None:
    dataset = uuid4()
    desk.pool("later", None)
    desk.listen(dataset, "totals", pool="later")
    tasks = desk.add(30)
    for task in tasks[:10]:
        desk.claim(task)
    desk.rows("UPDATE tasks SET lease_until = now() - interval '1 day' "
              "WHERE status = 'Running' RETURNING id")  # fmt: skip

    def round_of_loops(_: int) -> tuple[int, int]:
        return steps.reap(desk.database), desk.requeue()

    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(round_of_loops, range(24)))
    assert sum(reaped for reaped, _ in done) == 10
    assert sum(queued for _, queued in done) == 10

    def work(_: int) -> int:
        count = 0
        while isinstance(claimed := desk.claim_next(), Claimed):
            scope = Scope(partition_key=str(claimed.task.id))
            desk.complete(fence_of(claimed), Event(dataset=dataset, scope=scope))
            count += 1
        return count

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(work, range(6))) == 30
    assert len(desk.tasks("totals")) == 30


def test_a_pool_of_two_slots_never_runs_more_than_two(desk: Desk) -> None:
    desk.pool("api", [{"KEY": "one"}, {"KEY": "two"}])
    tasks = desk.add(6, pool="api", max_concurrency=20)
    pools = ("api",)
    held = [desk.claim_next(pools=pools), desk.claim_next(pools=pools)]
    assert [claimed.slot.env["KEY"] for claimed in held] == ["one", "two"]
    assert desk.claim_next(pools=pools).reason == "Empty"  # the others found no slot
    assert [desk.refused(task) for task in tasks].count("NoSlot") == 4
    done = 0
    while held:
        first = held.pop(0)
        desk.expire(first.task.id) if done == 0 else desk.complete(fence_of(first))
        done += 1
        claimed = desk.claim_next(pools=pools)
        if isinstance(claimed, Claimed):
            assert claimed.slot.env["KEY"] == first.slot.env["KEY"]
            held.append(claimed)
        running = desk.rows("SELECT count(*) AS n FROM tasks WHERE status = 'Running'")
        assert running[0]["n"] == len(held) <= 2
        desk.requeue()
    assert {desk.task(task).status.value for task in tasks} <= {"Completed", "Queued"}
    assert desk.rows("SELECT task_id FROM slots WHERE task_id IS NOT NULL") == []
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        desk.listen(uuid4(), "x", pool="missing")


def test_as_many_tasks_of_an_asset_run_as_it_allows(desk: Desk) -> None:
    tasks = desk.add(5, max_concurrency=2)
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda task: desk.try_claim(task, str(task)), tasks))
    claimed = [one for one in found if isinstance(one, Claimed)]
    assert len(claimed) == 2
    assert {str(one.reason) for one in found if not isinstance(one, Claimed)} == {
        "ConcurrencyLimit"
    }
    while desk.claim_next().to_json()["status"] == "Claimed":
        pytest.fail("a third one ran")
    desk.complete(fence_of(claimed[0]))
    assert isinstance(desk.claim_next(), Claimed)


def test_held_tasks_are_made_and_wait_until_they_are_released(desk: Desk) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals", held_by="deployment 7")
    [task, other] = desk.add(2)
    desk.complete(desk.claim(task), Event(dataset=dataset))
    [held] = desk.tasks("totals")
    assert (held.held_by, desk.refused(held.id)) == ("deployment 7", "Held")
    with desk.database.transaction() as tx:
        assert operate.hold(tx, desk.owner, [other, task], "deployment 7") == 1
    assert desk.refused(other) == "Held"
    assert desk.claim_next().reason == "Empty"
    with desk.database.transaction() as tx:
        assert operate.release(tx, desk.owner, "deployment 7") == 2
    assert isinstance(desk.claim_next(), Claimed)


def test_a_missed_tick_is_caught_up_once(desk: Desk) -> None:
    cron = Cron("0 2 * * *", "Europe/Berlin")
    with desk.database.transaction() as tx:
        steps.put_schedule(tx, "nightly", cron, desk.template("orders"))
    assert steps.tick(desk.database) == 0
    desk.rows("UPDATE schedules SET next_at = next_at - interval '5 days' RETURNING name")
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(lambda _: steps.tick(desk.database), range(8))) == 1
    [task] = desk.tasks("orders")
    assert task.trigger == "schedule"
    [row] = desk.rows("SELECT next_at, last_at, clock_timestamp() AS now FROM schedules")
    assert row["last_at"] <= row["now"] < row["next_at"]
    assert row["next_at"] - row["last_at"] <= timedelta(hours=25)


def test_cron_follows_the_time_zone_through_the_change_of_clocks() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin")
    winter = datetime(2026, 3, 28, 0, 0, tzinfo=UTC)
    ticks = []
    for _ in range(3):
        winter = cron.next(winter)
        ticks.append(winter.isoformat())
    # On the 29th there is no 02:30; Debian's cron runs it once the hour is over.
    assert ticks == [
        "2026-03-28T01:30:00+00:00", "2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00",
    ]  # fmt: skip
    at = datetime(2026, 7, 1, 0, 30, tzinfo=UTC)
    assert cron.latest(at) == at
    assert cron.latest(at + timedelta(hours=3)) == at
    assert cron.latest(at - timedelta(seconds=1)) == at - timedelta(days=1)
    for wrong in ("* * * *", "61 * * * *", "0 0 31 2 *"):
        with pytest.raises(UsageError):
            Cron(wrong)
    with pytest.raises(UsageError, match="Mars"):
        Cron("0 0 * * *", "Mars/Olympus")


def test_upkeep_removes_what_finished_long_ago_and_nothing_else(desk: Desk) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals")
    old, open_source, queued = desk.add(3)
    fence = desk.claim(open_source)
    desk.emit(fence, Event(dataset=dataset, scope=Scope(cursor="1")))
    desk.complete(desk.claim(old), Event(dataset=dataset, scope=Scope(cursor="2")))
    for task in desk.tasks("totals"):
        desk.complete(desk.claim(task.id))
    assert steps.upkeep(desk.database) == 0
    while steps.upkeep(desk.database, keep_s=0):
        pass
    left = desk.counts()
    # The running producer may emit its event again, so that one stays.
    assert (left["tasks"], left["events"]) == (2, 1)
    assert desk.emit(fence, Event(dataset=dataset, scope=Scope(cursor="1"))).accepted == 0
    assert desk.tasks("totals") == []
    with pytest.raises(StaleAttempt):
        desk.complete(fence.__class__(task=queued, attempt=1, lease_token=fence.lease_token))
