"""R60 over real HTTP: a slot is free again after every end of the task that had it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from tallyman.control.dispatch import operate
from tallyman.domain.task.retry import RetryPolicy
from tallyman.settings import Secret
from tallyman.worker.client import ServerClient
from tests.dispatch import processes
from tests.dispatch.desk import Desk
from tests.dispatch.test_reference_scenario import CLAIM, COMPLETE, completion


@pytest.fixture(scope="module")
def place(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = processes.server(address, tmp_path_factory.mktemp("server"))
    yield started.first
    started.kill()


@pytest.mark.parametrize("how", ["completion", "failure", "timeout", "cancel", "silence"])
def test_a_slot_is_free_after_every_end(desk: Desk, place: str, how: str) -> None:
    """R60: whoever waits for the only slot gets it when the task before has ended, however."""
    client = ServerClient(place, Secret(desk.token(f"w-{uuid4()}")))
    desk.pool("one", [{"API_KEY": "the only one"}])
    once = RetryPolicy(attempts=1, timeout_s=1 if how == "timeout" else 600)
    lease_s = 1 if how == "silence" else 30
    [before] = desk.add(asset="before", pool="one", retry=once, lease_s=lease_s, priority=1)
    wanted = {"worker_id": "w", "pools": ["one"], "wait_s": 20}
    held = client.post(CLAIM, wanted)
    assert held["task"]["slot"]["env"] == {"API_KEY": "the only one"}
    [waiting] = desk.add(asset="waiting", pool="one")
    assert client.post(CLAIM, {**wanted, "wait_s": 0.1})["status"] == "NotClaimed"
    finish(desk, client, held, before, how)
    after = client.post(CLAIM, {**wanted, "worker_id": "another"})
    assert (after["status"], after["task"]["task_id"]) == ("Claimed", str(waiting))
    assert after["task"]["slot"]["env"] == {"API_KEY": "the only one"}
    client.close()


def finish(desk: Desk, client: ServerClient, held: dict[str, Any], task: UUID, how: str) -> None:
    said = completion(held)
    if how == "completion":
        client.post(COMPLETE, said)
    elif how == "failure":
        client.post(COMPLETE, {**said, "status": "Failed"})
    elif how == "cancel":
        with desk.database.transaction() as tx:
            operate.cancel(tx, desk.owner, task)
        client.post(COMPLETE, {**said, "status": "Canceled"})
    # Otherwise the reaper does it.
