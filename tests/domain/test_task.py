"""Tasks in plain Python: retry policies, scopes, and identities."""

import json
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.retry import RetryPolicy, retry
from tallyman.domain.task.task import NewTask, TaskTemplate, TriggerKind, event_key
from tallyman.errors import UsageError

texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=20)
ranges = st.tuples(st.integers(), st.integers()).map(sorted)
scopes = st.one_of(
    st.just(Scope()),
    texts.map(lambda text: Scope(partition_key=text)),
    texts.map(lambda text: Scope(cursor=text)),
    ranges.map(lambda ends: Scope(start=ends[0], end=ends[1])),
)


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
