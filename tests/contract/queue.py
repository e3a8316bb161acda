"""What every queue has to do. An implementation has a test file that inherits from this class and
gives it the fixture `queue`, and `sooner`, which lets what is hidden become visible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from tallyman.domain.task.queue import Queue, QueueBlocked, Wake

Sooner = Callable[[], None]


class QueueContract:
    def test_what_is_sent_is_received_once_and_only_from_its_queue(self, queue: Queue) -> None:
        tasks = [uuid4() for _ in range(5)]
        queue.send([Wake("a", task) for task in tasks])
        assert queue.receive(["b"], hidden_s=60, wait_s=0) is None
        found = [queue.receive(["b", "a"], hidden_s=60, wait_s=0) for _ in range(5)]
        assert {message.task for message in found if message} == set(tasks)
        assert queue.receive(["a"], hidden_s=60, wait_s=0) is None
        assert all(queue.acknowledge(message) for message in found if message)

    def test_what_is_urgent_comes_first(self, queue: Queue) -> None:
        low, high = uuid4(), uuid4()
        queue.send([Wake("a", low, 0), Wake("a", high, 9)])
        found = [queue.receive(["a"], hidden_s=60, wait_s=0) for _ in range(2)]
        assert [message.task for message in found if message] == [high, low]

    def test_what_is_urgent_comes_first_whatever_its_queue(self, queue: Queue) -> None:
        tasks = [uuid4() for _ in range(4)]
        for task, name, priority in zip(tasks, "abab", (0, 0, 5, 9), strict=True):
            queue.send([Wake(name, task, priority)])
        expected = [tasks[3], tasks[2], tasks[0], tasks[1]]
        for task in expected[:2]:
            found = queue.receive(["a", "b"], hidden_s=60, wait_s=0)
            assert found is not None
            assert found.task == task
        for task in expected[2:]:
            assert queue.deliver(["a", "b"], lambda _, found: found, wait_s=0) == task

    def test_a_message_that_nobody_acknowledged_comes_again(
        self, queue: Queue, sooner: Sooner
    ) -> None:
        task = uuid4()
        queue.send([Wake("a", task)])
        first = queue.receive(["a"], hidden_s=60, wait_s=0)
        assert first is not None
        assert queue.extend(first, 60)
        sooner()
        second = queue.receive(["a"], hidden_s=60, wait_s=0)
        assert second is not None
        assert second.task == task
        assert not queue.acknowledge(first), "a stale receipt removed a message"
        assert not queue.extend(first, 60)
        assert queue.acknowledge(second)
        assert not queue.acknowledge(second)
        sooner()
        assert queue.receive(["a"], hidden_s=60, wait_s=0) is None

    def test_of_many_receivers_each_message_reaches_one(self, queue: Queue) -> None:
        tasks = {uuid4() for _ in range(40)}
        queue.send([Wake("a", task) for task in tasks])

        def take(_: int) -> list[object]:
            found = []
            while (message := queue.receive(["a"], hidden_s=60, wait_s=0)) is not None:
                found.append(message.task)
            return found

        with ThreadPoolExecutor(8) as threads:
            got = [task for found in threads.map(take, range(8)) for task in found]
        assert len(got) == len(tasks)
        assert set(got) == tasks

    def test_a_message_sent_while_it_is_handled_is_not_lost(self, queue: Queue) -> None:
        task = uuid4()
        queue.send([Wake("a", task)])
        first = queue.receive(["a"], hidden_s=60, wait_s=0)
        queue.send([Wake("a", task)])  # the reason for it came after the first was looked at
        assert first is not None
        queue.acknowledge(first)
        again = queue.receive(["a"], hidden_s=60, wait_s=0)
        assert again is not None
        assert again.task == task

    def test_a_delivered_message_is_gone_and_a_refused_one_stays(self, queue: Queue) -> None:
        task = uuid4()
        queue.send([Wake("a", task)])
        assert queue.deliver(["b"], lambda _, found: found, wait_s=0) is None
        with pytest.raises(ValueError, match="not now"):
            queue.deliver(["a"], refuse, wait_s=0)
        assert queue.deliver(["b", "a"], lambda _, found: found, wait_s=0) == task
        assert queue.deliver(["a"], lambda _, found: found, wait_s=0) is None

    def test_a_message_that_leads_to_nothing_is_gone_and_the_next_one_comes(
        self, queue: Queue
    ) -> None:
        tasks = [uuid4() for _ in range(3)]
        queue.send([Wake("a", task, 3 - n) for n, task in enumerate(tasks)])
        last = tasks[-1]
        assert queue.deliver(["a"], lambda _, task: task if task == last else None, wait_s=0)
        assert queue.receive(["a"], hidden_s=60, wait_s=0) is None

    def test_messages_of_a_blocked_queue_stay_and_other_queues_go_on(self, queue: Queue) -> None:
        blocked, other = [uuid4() for _ in range(3)], uuid4()
        queue.send([Wake("a", task, 9) for task in blocked])
        queue.send([Wake("b", other)])
        asked: list[UUID] = []

        def handle(_: object, task: UUID) -> UUID:
            asked.append(task)
            if task in blocked:
                raise QueueBlocked
            return task

        assert queue.deliver(["a", "b"], handle, wait_s=0) == other
        assert queue.deliver(["a", "b"], handle, wait_s=0) is None
        assert len(asked) == 3  # each time one of those that are blocked
        there = {queue.deliver(["a"], lambda _, found: found, wait_s=0) for _ in range(3)}
        assert there == set(blocked)

    def test_while_one_is_delivered_others_get_another_or_none(self, queue: Queue) -> None:
        first, second = uuid4(), uuid4()
        queue.send([Wake("a", first, 1), Wake("a", second)])

        def handle(_: object, task: UUID) -> list[UUID | None]:
            others = [queue.deliver(["a"], lambda _, found: found, wait_s=0) for _ in range(2)]
            return [task, *others]

        assert queue.deliver(["a"], handle, wait_s=0) == [first, second, None]

    def test_a_receiver_that_waits_is_woken(self, queue: Queue) -> None:
        task, waits = uuid4(), threading.Event()

        def receive() -> object:
            waits.set()
            return queue.receive(["a"], hidden_s=60, wait_s=30)

        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(receive)
            waits.wait()
            queue.send([Wake("a", task)])
            message = found.result(30)
        assert message is not None
        assert message.task == task


def refuse(*_: object) -> None:
    raise ValueError("not now")
