"""One effective completion for each task: what counts, what is late, what is stale."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tallyman.control.dispatch import operate, steps
from tallyman.control.dispatch.claim import Claimed, claim
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.fence import Fence, ReportStatus
from tallyman.domain.task.state import TaskStatus
from tallyman.errors import NotFound, StaleAttempt, TaskInState
from tallyman.registry.task.operations import Operations
from tests.dispatch.desk import Desk
from tests.world.waiting import wait_until


def test_of_twenty_parallel_claims_one_wins(desk: Desk) -> None:
    [task] = desk.add()
    with ThreadPoolExecutor(20) as threads:
        found = list(threads.map(lambda n: desk.try_claim(task, f"w{n}"), range(20)))
    assert sum(isinstance(one, Claimed) for one in found) == 1
    assert desk.task(task).attempt == 1
    assert desk.refused(task) == "AlreadyRunning"
    [winner] = [one for one in found if isinstance(one, Claimed)]
    again = desk.try_claim(task, str(winner.task.worker))
    assert isinstance(again, Claimed)  # its answer may have got lost
    assert again.task.lease_token == winner.task.lease_token


def test_a_stale_attempt_that_reports_1000_times_is_never_accepted(desk: Desk) -> None:
    [task] = desk.add()
    stale = desk.claim(task)
    desk.expire(task)
    desk.requeue()
    current = desk.claim(task)
    before = desk.counts()
    event = Event(dataset=uuid4())
    calls = (
        lambda: desk.complete(stale, event),
        lambda: desk.fail(stale),
        lambda: desk.emit(stale, event),
        lambda: desk.beat(stale),
    )
    refused = 0
    for n in range(1000):
        with pytest.raises(StaleAttempt) as caught:
            calls[n % len(calls)]()
        refused += 1
        facts = {"attempt": 1, "current_attempt": 2, "status": "Running"}
        assert caught.value.facts()["fence"] == facts
    assert refused == 1000
    assert desk.counts() == before
    assert desk.complete(current).status is TaskStatus.COMPLETED
    assert desk.outcomes(task) == ["lease_expired", "success"]


def test_a_guessed_token_or_a_foreign_owner_is_refused(desk: Desk) -> None:
    [task] = desk.add()
    real = desk.claim(task)
    with pytest.raises(StaleAttempt):
        desk.complete(Fence(task=task, attempt=1, lease_token=uuid4()))
    mine, desk.owner = desk.owner, desk.owner.__class__("default", "somebody-else")
    with pytest.raises(NotFound):
        desk.complete(real)
    with pytest.raises(NotFound):
        desk.beat(real)
    assert desk.refused(task) == "NotFound"
    desk.owner = mine
    assert desk.task(task).status is TaskStatus.RUNNING


def test_the_last_attempt_completes_late_after_it_was_given_up(desk: Desk) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals")
    [task] = desk.add()
    for attempt in (1, 2, 3):
        fence = desk.claim(task)
        assert fence.attempt == attempt
        desk.expire(task)
        if attempt < 3:
            assert desk.task(task).next_retry_at is not None
            desk.requeue()
    failed = desk.task(task)
    assert (failed.status, failed.next_retry_at) == (TaskStatus.FAILED, None)
    assert failed.finished_at is not None
    assert desk.complete(fence, Event(dataset=dataset)).status is TaskStatus.COMPLETED
    assert desk.outcomes(task) == ["lease_expired", "lease_expired", "success"]
    assert len(desk.tasks("totals")) == 1
    assert desk.complete(fence, Event(dataset=dataset)).duplicate


def test_a_completion_counts_until_a_newer_attempt_begins(desk: Desk) -> None:
    queued, waiting = desk.add(2)
    first, second = desk.claim(queued), desk.claim(waiting)
    desk.expire(queued)
    desk.requeue()
    desk.expire(waiting)
    assert desk.task(queued).status is TaskStatus.QUEUED
    for task, fence in ((queued, first), (waiting, second)):
        assert desk.complete(fence).status is TaskStatus.COMPLETED
        assert desk.refused(task) == "Completed"
    assert desk.requeue() == 0


def test_every_report_twice_leaves_the_same_rows(desk: Desk) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals")
    done, failed, stopped, asking = desk.add(4)
    event = Event(dataset=dataset, scope=Scope(cursor="7"))
    fences = {task: desk.claim(task) for task in (done, failed, stopped, asking)}
    first = desk.emit(fences[done], event)
    assert (first.accepted, first.duplicates, first.tasks) == (1, 0, 1)

    def once() -> list[bool]:
        again = desk.report(fences[done], ReportStatus.COMPLETED, events=[event])
        return [
            again.duplicate,
            desk.fail(fences[failed], retryable=False).duplicate,
            desk.report(fences[stopped], ReportStatus.CANCELED).duplicate,
            desk.report(fences[asking], ReportStatus.WAITING).duplicate,
        ]

    assert once() == [False] * 4
    before = desk.counts(), [desk.task(t) for t in fences], [desk.outcomes(t) for t in fences]
    assert once() == [True] * 4
    now = desk.counts(), [desk.task(t) for t in fences], [desk.outcomes(t) for t in fences]
    assert now == before
    assert [desk.task(task).status.value for task in fences] == [
        "Completed", "Failed", "Canceled", "Waiting",
    ]  # fmt: skip
    with pytest.raises(StaleAttempt, match="Completed"):
        desk.emit(fences[done], event)  # events come before the completion


def test_a_fatal_error_is_not_retried_and_others_are_until_the_policy_ends(desk: Desk) -> None:
    fatal, flaky = desk.add(2)
    desk.fail(desk.claim(fatal), retryable=False)
    assert desk.task(fatal).finished_at is not None
    for attempt in (1, 2, 3):
        desk.fail(desk.claim(flaky))
        assert desk.requeue() == (attempt < 3)
    assert desk.refused(flaky) == "Failed"
    with desk.database.transaction() as tx:
        operate.retry(tx, desk.owner, flaky)
    assert desk.claim(flaky).attempt == 4
    assert (desk.task(flaky).attempts_before, desk.task(flaky).failures) == (3, 0)
    with pytest.raises(TaskInState, match="Running"), desk.database.transaction() as tx:
        operate.retry(tx, desk.owner, flaky)


def test_a_timeout_is_told_from_a_lost_worker(desk: Desk) -> None:
    [task] = desk.add()
    fence = desk.claim(task)
    late = "UPDATE tasks SET deadline_at = clock_timestamp() - interval '1 second' WHERE id = %s "
    desk.rows(late + "RETURNING id", task)
    assert desk.beat(fence).cancel is False  # it lives, and takes too long
    assert steps.reap(desk.database) == 1
    assert desk.outcomes(task) == ["timeout"]
    assert "took longer than 600 s" in str(desk.task(task).error)
    with pytest.raises(StaleAttempt):
        desk.beat(fence)


def test_a_timeout_is_one_whoever_notices_it(desk: Desk) -> None:
    [task] = desk.add()
    error = {"code": "timeout", "message": "the attempt took longer than 600 s"}
    said = desk.report(desk.claim(task), ReportStatus.FAILED, error=error)
    assert (said.again, desk.outcomes(task)) == (True, ["timeout"])


def test_a_lease_that_is_over_is_not_renewed(desk: Desk) -> None:
    [task] = desk.add()
    fence = desk.claim(task)
    desk.beat(fence)
    over = "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 second' WHERE id = %s "
    desk.rows(over + "RETURNING id", task)
    with pytest.raises(StaleAttempt):
        desk.beat(fence)


def test_a_canceled_task_never_completes(desk: Desk) -> None:
    queued, running, stuck = desk.add(3)
    fences = [desk.claim(running), desk.claim(stuck)]
    for task in (queued, running, stuck, running):
        with desk.database.transaction() as tx:
            operate.cancel(tx, desk.owner, task)
    assert desk.task(queued).status is TaskStatus.CANCELED
    assert desk.refused(queued) == "Canceled"
    assert [desk.beat(fence).cancel for fence in fences] == [True, True]
    for fence in fences:
        with pytest.raises(StaleAttempt, match="being canceled"):
            desk.complete(fence)
    assert desk.report(fences[0], ReportStatus.CANCELED).status is TaskStatus.CANCELED
    assert steps.reap(desk.database, grace_s=0) == 1  # by force
    for task, fence in zip((running, stuck), fences, strict=True):
        assert desk.task(task).status is TaskStatus.CANCELED
        with pytest.raises(StaleAttempt, match="Canceled"):
            desk.complete(fence)
    with desk.database.transaction() as tx:
        operate.retry(tx, desk.owner, stuck)
    with pytest.raises(StaleAttempt):  # the attempt that was canceled does not come back
        desk.complete(fences[1])


def test_a_cancel_that_meets_a_claim_asks_the_worker_to_stop(desk: Desk) -> None:
    [task] = desk.add()
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    def cancel() -> bool:
        with desk.database.transaction() as tx:
            return Operations(tx).cancel(task)

    with ThreadPoolExecutor(1) as threads:
        with desk.database.transaction() as tx:
            assert isinstance(claim(tx, desk.owner, task, "w"), Claimed)
            canceled = threads.submit(cancel)
            wait_until(lambda: desk.rows(waiting))
        assert canceled.result(60)
    found = desk.task(task)
    assert (found.status, found.finished_at) == (TaskStatus.RUNNING, None)
    assert found.cancel_requested_at is not None


def test_a_task_that_waits_for_a_person_holds_nothing_and_goes_on_by_itself(desk: Desk) -> None:
    desk.pool("one", [{}])
    asked, rejected = desk.add(2, pool="one")
    fence = desk.claim(asked)
    assert desk.refused(rejected) == "NoSlot"
    desk.report(fence, ReportStatus.WAITING)
    other = desk.claim(rejected)  # the slot is free
    desk.report(other, ReportStatus.WAITING)
    with desk.database.transaction() as tx:
        operate.decide(tx, desk.owner, asked, approved=True, reason="")
        operate.decide(tx, desk.owner, rejected, approved=False, reason="too large")
    for decided in (fence, other):
        with pytest.raises(StaleAttempt):
            desk.complete(decided)
    assert desk.task(rejected).error == {"code": "checkpoint_rejected", "message": "too large"}
    with pytest.raises(TaskInState), desk.database.transaction() as tx:
        operate.decide(tx, desk.owner, asked, approved=True, reason="")
    again = desk.claim(asked)
    assert (again.attempt, desk.task(asked).failures) == (2, 0)  # the budget is untouched
    assert desk.complete(again).status is TaskStatus.COMPLETED
