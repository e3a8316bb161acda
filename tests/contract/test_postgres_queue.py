"""The queue in PostgreSQL keeps the contract of queues."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest

from tallyman.domain.task.queue import Wake
from tallyman.registry.database import Database
from tallyman.registry.task import queue as postgres_queue
from tallyman.registry.task.queue import PostgresQueue
from tests.contract.queue import QueueContract, Sooner


@pytest.fixture(scope="module")
def database(
    empty_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    made = Database(empty_database(), tmp_path_factory.mktemp("queue"), most_idle=16)
    yield made
    made.close()


@pytest.fixture
def queue(database: Database) -> Iterator[PostgresQueue]:
    with database.transaction() as tx:
        tx.execute("DELETE FROM queue_messages")
    made = PostgresQueue(database)
    yield made
    made.close()


@pytest.fixture
def sooner(database: Database) -> Sooner:
    def now() -> None:
        with database.transaction() as tx:
            tx.execute("UPDATE queue_messages SET visible_at = clock_timestamp()")

    return now


class TestPostgresQueue(QueueContract):
    def test_a_message_is_the_id_of_a_task_and_nothing_else(
        self, queue: PostgresQueue, database: Database
    ) -> None:
        task = uuid4()
        queue.send([Wake("a", task, 3)])
        with database.transaction() as tx:
            rows = tx.execute("SELECT payload::text AS raw FROM queue_messages").fetchall()
        assert [row["raw"] for row in rows] == [f'{{"task_id": "{task}"}}']
        with pytest.raises(psycopg.errors.CheckViolation), database.transaction() as tx:
            tx.execute("""UPDATE queue_messages SET payload = '{"task_id": "x", "config": {}}'""")

    def test_waking_a_task_again_and_again_keeps_one_message(
        self, queue: PostgresQueue, database: Database
    ) -> None:
        task = uuid4()
        for _ in range(5):
            queue.send([Wake("a", task), Wake("a", task)])
        with database.transaction() as tx:
            assert len(tx.execute("SELECT FROM queue_messages").fetchall()) == 1

    def test_without_notifications_a_receiver_still_finds_the_message(
        self, queue: PostgresQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(postgres_queue, "NOTIFY", "SELECT %(channel)s")
        monkeypatch.setattr(postgres_queue, "POLL_S", 0.05)
        self.test_a_receiver_that_waits_is_woken(queue)

    def test_a_closed_queue_lets_waiting_receivers_go(self, queue: PostgresQueue) -> None:
        queue.close()
        assert queue.receive(["a"], hidden_s=60, wait_s=3600) is None
