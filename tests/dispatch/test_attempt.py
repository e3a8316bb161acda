"""One attempt against a real server that refuses what it says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tallyman.control.dispatch import operate
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.state import TaskStatus
from tallyman.errors import CallRefused
from tallyman.settings import Secret
from tallyman.worker.attempt import COMPLETE, EVENTS, HEARTBEAT, Attempt
from tallyman.worker.client import ServerClient
from tallyman.worker.warm_children import WarmChildren
from tallyman.worker.worker import CLAIM, Worker
from tests.dispatch import processes
from tests.dispatch.desk import FAST, Desk
from tests.dispatch.test_worker import ended

LATER = RetryPolicy(attempts=3, timeout_s=600, backoff_s=3600, backoff_cap_s=3600)
GATED = "tests.dispatch.work:gated"


@pytest.fixture(scope="module")
def place(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = processes.server(address, tmp_path_factory.mktemp("server"))
    yield started.first
    started.kill()


@pytest.fixture(autouse=True)
def _work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(processes.ROOT))


class Watched(ServerClient):
    """A client that lets the test know what was refused."""

    def __init__(self, address: str, token: str, refused: Callable[[str], None]) -> None:
        super().__init__(address, Secret(token))
        self._note = refused

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return super().post(path, body)
        except CallRefused as refused:
            self._note(f"{path} {refused.status}")
            raise


def begun(desk: Desk, client: ServerClient, **given: Any) -> tuple[UUID, dict[str, Any]]:
    """Add a task and claim it over HTTP."""
    [task] = desk.add(kind="gated", lease_s=1, **given)
    answer = client.post(CLAIM, {"worker_id": "w", "task_id": str(task)})
    return task, answer


def attempt(client: ServerClient, answer: dict[str, Any]) -> None:
    children = WarmChildren(1)
    Attempt(client, children, answer).run(GATED)
    children.close()


def test_work_goes_on_after_its_lease_until_another_attempt_begins(
    desk: Desk, place: str, tmp_path: Path
) -> None:
    go, said = tmp_path / "go", list[str]()

    def refused(what: str) -> None:
        said.append(what)
        go.touch()  # the work ends after the first heartbeat that was refused

    client = Watched(place, desk.token(f"w-{uuid4()}"), refused)
    dataset = uuid4()
    desk.listen(dataset, "totals")
    config = {"go": str(go), "meanwhile": [{"dataset_uuid": str(dataset)}]}
    task, answer = begun(desk, client, retry=LATER, config=config)
    desk.expire(task)
    assert desk.task(task).status is TaskStatus.FAILED
    attempt(client, answer)
    assert (said[0], said[-1]) == (f"{HEARTBEAT} 409", f"{EVENTS} 409")
    assert desk.task(task).status is TaskStatus.COMPLETED
    assert len(desk.tasks("totals")) == 1  # its events came with the completion
    client.close()


def test_work_ends_when_another_attempt_has_begun(desk: Desk, place: str, tmp_path: Path) -> None:
    said = list[str]()
    client = Watched(place, desk.token(f"w-{uuid4()}"), said.append)
    task, answer = begun(desk, client, retry=FAST, config={"go": str(tmp_path / "never")})
    desk.expire(task)
    desk.requeue()
    other = desk.claim(task)
    attempt(client, answer)
    assert said == [f"{HEARTBEAT} 409"]
    assert desk.complete(other).status is TaskStatus.COMPLETED
    client.close()


def test_a_report_that_is_refused_twice_is_the_end_of_the_attempt_only(
    desk: Desk, place: str, tmp_path: Path
) -> None:
    go, said = tmp_path / "go", list[str]()
    go.touch()

    def refused(what: str) -> None:
        said.append(what)
        if len(said) == 1:  # before it reports that its report was wrong
            desk.expire(task)
            desk.requeue()
            desk.claim(task)

    client = Watched(place, desk.token(f"w-{uuid4()}"), refused)
    wrong = {"go": str(go), "events": [{"dataset_uuid": "not a uuid"}]}
    task, answer = begun(desk, client, retry=FAST, config=wrong)
    attempt(client, answer)
    assert said == [f"{COMPLETE} 422", f"{COMPLETE} 409"]
    assert desk.task(task).attempt == 2
    client.close()


def test_work_that_is_done_when_its_cancel_arrives_is_canceled_at_once(
    desk: Desk, place: str, tmp_path: Path
) -> None:
    """It would be canceled only when its lease is over if nothing else were reported."""
    go = tmp_path / "go"
    go.touch()
    client = ServerClient(place, Secret(desk.token(f"w-{uuid4()}")))
    [task] = desk.add(kind="gated", lease_s=600, config={"go": str(go)})
    answer = client.post(CLAIM, {"worker_id": "w", "task_id": str(task)})
    with desk.database.transaction() as tx:
        operate.cancel(tx, desk.owner, task)
    assert desk.task(task).status is TaskStatus.RUNNING
    attempt(client, answer)
    assert (desk.task(task).status, desk.outcomes(task)) == (TaskStatus.CANCELED, ["canceled"])
    client.close()


def test_a_place_of_a_worker_goes_on_after_an_error_of_its_own(desk: Desk, place: str) -> None:
    client = ServerClient(place, Secret(desk.token(f"w-{uuid4()}")))
    desk.add(kind="odd", priority=9)
    [other] = desk.add(kind="echo")
    # No such entry can be sent to a child.
    entries: dict[str, Any] = {"odd": object(), "echo": "tests.dispatch.work:echo"}
    worker = Worker(client, entries, ["default"])
    working = threading.Thread(target=worker.run)
    working.start()
    try:
        ended(desk, other)
    finally:
        worker.drain()
        working.join()
    assert desk.task(other).status is TaskStatus.COMPLETED
