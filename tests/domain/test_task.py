"""Tasks in plain Python: the state machine, the fence, retry policies, and identities."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.fence import (
    AttemptReport,
    Fence,
    ReportStatus,
    ReportVerdict,
    judge,
    refusal,
)
from tallyman.domain.task.retry import RetryPolicy, retry
from tallyman.domain.task.state import TRANSITIONS, TaskStatus, Transition, after, sources
from tallyman.domain.task.task import NewTask, Slot, Task, TaskTemplate, TriggerKind, event_key
from tallyman.errors import StaleAttempt, UsageError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK, TOKEN = UUID(int=1), UUID(int=2)


def task(status: TaskStatus, attempt: int = 2, **rest: object) -> Task:
    known = {
        "id": TASK, "org": "default", "project": "p", "kind": "make", "asset": "a",
        "pipeline_version": None, "run_id": None, "config": {}, "trigger": TriggerKind.MANUAL,
        "event_id": None, "dedupe_key": "k", "scope": Scope(), "pool": "default", "priority": 0,
        "max_concurrency": None, "status": status, "attempt": attempt, "failures": 0,
        "max_attempts": 3, "timeout_s": 60, "lease_s": 30, "lease_token": TOKEN,
        "lease_until": NOW, "deadline_at": NOW, "next_retry_at": None, "held_by": None,
        "cancel_requested_at": None, "worker": "w", "error": None, "created_at": NOW,
        "finished_at": None, "limited": False,
    }  # fmt: skip
    return Task(**{**known, **rest})


statuses = st.sampled_from(TaskStatus)
reports = st.sampled_from(ReportStatus)
texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=20)
ranges = st.tuples(st.integers(), st.integers()).map(sorted)
scopes = st.one_of(
    st.just(Scope()),
    texts.map(lambda text: Scope(partition_key=text)),
    texts.map(lambda text: Scope(cursor=text)),
    ranges.map(lambda ends: Scope(start=ends[0], end=ends[1])),
)


@given(st.lists(st.sampled_from(Transition), max_size=30))
def test_a_completed_task_stays_completed(steps: list[Transition]) -> None:
    status = TaskStatus.QUEUED
    for step in steps:
        before, status = status, after(status, step) or status
        assert before is not TaskStatus.COMPLETED or status is TaskStatus.COMPLETED
        assert (before.value in sources(step)) == (after(before, step) is not None)
    reachable = {TaskStatus.QUEUED, *TRANSITIONS.values()}
    assert reachable == set(TaskStatus)


@given(statuses, reports, st.booleans(), st.booleans(), st.booleans())
def test_only_the_current_attempt_is_heard(
    status: TaskStatus, said: ReportStatus, old: bool, guessed: bool, canceling: bool
) -> None:
    now = task(status, cancel_requested_at=NOW if canceling else None)
    fence = Fence(task=TASK, attempt=1 if old else 2, lease_token=UUID(int=3) if guessed else TOKEN)
    verdict = None
    with suppress(StaleAttempt):
        verdict = judge(now, AttemptReport(fence=fence, status=said))
    if verdict is None:
        return
    assert not old
    assert not guessed
    if said is ReportStatus.COMPLETED:
        # Late is fine; ended, canceled or waiting is not.
        new = status in (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.FAILED) and not canceling
        assert (verdict is ReportVerdict.APPLY) == new
        assert new or status is TaskStatus.COMPLETED
    elif verdict is ReportVerdict.APPLY:
        assert status is TaskStatus.RUNNING


@given(statuses)
def test_only_a_queued_task_that_nobody_holds_can_be_claimed(status: TaskStatus) -> None:
    assert (refusal(task(status)) is None) == (status is TaskStatus.QUEUED)
    assert refusal(task(status, held_by="deployment")) is not None


@given(st.integers(1, 100), st.integers(0, 300), st.integers(300, 3000))
def test_pauses_grow_to_their_cap(attempts: int, backoff: int, cap: int) -> None:
    policy = RetryPolicy(attempts=attempts, backoff_s=backoff, backoff_cap_s=cap)
    pauses = policy.delays_s
    assert len(pauses) == attempts - 1
    assert pauses == sorted(pauses)
    assert all(backoff <= pause <= cap for pause in pauses)
    assert of_plain(RetryPolicy, json.loads(json.dumps(to_plain(policy)))) == policy


def test_a_policy_is_written_with_units() -> None:
    assert retry() == RetryPolicy()
    assert retry().delays_s == [30, 90]
    assert retry(attempts=5, backoff="1m").delays_s == [60, 180, 300, 300]
    assert retry(attempts=1, timeout="2h") == RetryPolicy(attempts=1, timeout_s=7200)
    for wrong in ({"attempts": 0}, {"timeout": "soon"}, {"timeout": "0s"}, {"timeout": 30}):
        with pytest.raises(UsageError, match="retry: "):
            retry(**wrong)  # type: ignore[arg-type]


@given(scopes, scopes, st.uuids(), st.uuids(), st.uuids())
def test_an_event_is_named_by_its_producer_dataset_and_scope(
    one: Scope, two: Scope, producer: UUID, other: UUID, dataset: UUID
) -> None:
    assert Scope.of_json(json.loads(json.dumps(one.to_json()))) == one
    assert (one.text == two.text) == (one == two)
    event = Event(dataset=dataset, scope=one)
    assert event.id(producer) == Event(dataset=dataset, scope=one, version=uuid4()).id(producer)
    assert (event.id(producer) == event.id(other)) == (producer == other)
    same = Event(dataset=dataset, scope=two).id(producer) == event.id(producer)
    assert same == (one == two)


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": 1},
        {"start": 2, "end": 1},
        {"cursor": ""},
        {"cursor": "a\x00"},
        {"partition_key": "x" * 2000},
        {"cursor": "1", "partition_key": "p"},
    ],
)
def test_a_scope_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="event: "):
        Scope(**wrong)  # type: ignore[arg-type]


@given(texts, texts, st.uuids())
def test_a_task_is_named_by_its_consumer_and_its_reason(one: str, two: str, event: UUID) -> None:
    def made(asset: str) -> NewTask:
        template = TaskTemplate(project="p", asset=asset, kind="make", retry=retry(attempts=2))
        assert TaskTemplate.of_json(json.loads(json.dumps(template.to_json()))) == template
        key = event_key(event)
        return NewTask(template=template, trigger=TriggerKind.EVENT, dedupe_key=key)

    assert (made(one).id == made(two).id) == (one == two)


def test_the_payload_of_a_task_is_json_without_the_right_to_report() -> None:
    slot = Slot(pool="api", index=1, env={"REGION": "eu"})
    found = json.dumps(task(TaskStatus.RUNNING).payload(slot))
    assert str(TOKEN) not in found
    assert json.loads(found)["slot"] == {"pool": "api", "index": 1, "env": {"REGION": "eu"}}
