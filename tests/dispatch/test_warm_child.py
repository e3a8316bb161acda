"""A child that stays for the next task: when it does, when it does not, and what it never mixes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from tallyman.domain.task.retry import RetryPolicy
from tallyman.settings import Secret
from tallyman.worker.attempt import Attempt
from tallyman.worker.child_process import ChildKind, ChildProcess
from tallyman.worker.client import ServerClient
from tallyman.worker.warm_children import ChildLimits, WarmChildren
from tests.dispatch import processes
from tests.dispatch.desk import Desk
from tests.dispatch.test_worker import is_gone

ENTRY = "tests.dispatch.work:warm"
ONCE = RetryPolicy(attempts=1)


@pytest.fixture(autouse=True)
def _work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(processes.ROOT))


def task(*, name: str = "", region: str = "eu", **config: Any) -> dict[str, Any]:
    slot = {"pool": "api", "index": 0, "env": {"REGION": region}}
    return {"config": config, "slot": slot, "process": {"name": name}}


def messages_of(child: ChildProcess) -> list[dict[str, Any]]:
    """What a child sends about its task, up to the result."""
    found: list[dict[str, Any]] = []
    while not any("result" in one for one in found):
        more, over = child.messages(60)
        assert not over, child.tail()
        found += more
    return found


def do(children: WarmChildren, given: dict[str, Any]) -> dict[str, Any]:
    """Have a task done, as an attempt does; return what its work saw, or its error."""
    child = children.take(ChildKind.of(ENTRY, given))
    child.begin(given)
    last = messages_of(child)[-1]
    children.give_back(child, fit=last["fit"])
    return last["result"].get("found") or last["result"]["error"]


@pytest.fixture
def children() -> Iterator[WarmChildren]:
    made = WarmChildren(1)
    yield made
    made.close()


def test_a_child_stays_for_the_next_task_and_mixes_nothing(children: WarmChildren) -> None:
    first = do(children, task(say="one"))
    second = do(children, task(say="two"))
    assert (second["pid"], second["before"]) == (first["pid"], ["one"])
    assert (first["files"], second["files"]) == ([], [])  # neither sees files of the other
    assert (first["stdin"], second["stdin"]) == ("", "")  # nor the orders
    child = children.take(ChildKind.of(ENTRY, task()))
    child.begin(task(say="three"))
    messages_of(child)
    assert child.tail() == "three"
    children.give_back(child, fit=True)


def test_what_a_task_sends_after_its_end_belongs_to_no_other(children: WarmChildren) -> None:
    do(children, task(say="one", leave_a_thread=True))
    child = children.take(ChildKind.of(ENTRY, task()))
    child.begin(task(say="two"))
    found = messages_of(child)
    assert child.tasks == 2
    assert [[*one][1:] for one in found] == [["begun"], ["result", "fit", "lost"]]
    children.give_back(child, fit=True)


@pytest.mark.parametrize("other", [{"region": "us"}, {"name": "another"}])
def test_other_settings_get_another_process(children: WarmChildren, other: dict[str, str]) -> None:
    first = do(children, task(say="one"))
    second = do(children, task(**other))
    assert second["env"] == other.get("region", "eu")
    assert second["pid"] != first["pid"]
    assert second["before"] == []
    assert is_gone(first["pid"])  # there is place for one


def test_a_known_error_leaves_the_process_and_an_unforeseen_one_does_not(
    children: WarmChildren,
) -> None:
    first = do(children, task(say="one"))
    assert do(children, task(known=True))["code"] == "usage_error"
    assert do(children, task())["pid"] == first["pid"]
    assert do(children, task(bytes="not a number"))["code"] == "execution_error"
    assert is_gone(first["pid"])
    assert do(children, task())["before"] == []


def test_a_worn_child_is_replaced_by_one_that_is_prepared() -> None:
    children = WarmChildren(1, ChildLimits(tasks=2))
    found = [do(children, task(name="s", say=str(n))) for n in range(5)]
    assert [one["before"] for one in found] == [
        [], ["0"], ["prepared for s"], ["prepared for s", "2"], ["prepared for s"],
    ]  # fmt: skip
    assert len({one["pid"] for one in found}) == 3
    children.close()
    assert all(is_gone(one["pid"]) for one in found)


def test_a_child_that_grew_is_replaced() -> None:
    children = WarmChildren(1, ChildLimits(growth=100 * 1024**2))
    first = do(children, task(bytes=200 * 1024**2))  # it is only compared from here on
    assert do(children, task())["pid"] == first["pid"]
    assert do(children, task(bytes=200 * 1024**2))["pid"] == first["pid"]
    assert do(children, task())["pid"] != first["pid"]
    children.close()


def test_a_child_that_waits_too_long_or_died_is_not_used() -> None:
    children = WarmChildren(2, ChildLimits(idle_s=0))
    first = do(children, task())
    os.kill(first["pid"], signal.SIGKILL)
    # A zombie may still have threads: until they are gone it has not ended for its parent.
    os.waitid(os.P_PID, first["pid"], os.WEXITED | os.WNOWAIT)
    second = do(children, task())
    assert second["pid"] != first["pid"]
    children.tend()
    assert is_gone(second["pid"])
    children.close()


# ---- through a server ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = processes.server(address, tmp_path_factory.mktemp("server"))
    yield started.first
    started.kill()


class Unlucky(WarmChildren):
    """A child that did a task before dies just when it is taken for another."""

    def take(self, kind: ChildKind, *, new: bool = False) -> ChildProcess:
        child = super().take(kind, new=new)
        if child.tasks:
            child.kill()
        return child


def test_a_child_that_dies_while_it_waits_costs_no_attempt(desk: Desk, place: str) -> None:
    client = ServerClient(place, Secret(desk.token(f"w-{uuid4()}")))
    children = Unlucky(1)
    tasks = desk.add(3, kind="warm", retry=ONCE)
    for _ in tasks:
        claimed = client.post("/internal/task-claim", {"worker_id": "w", "wait_s": 20})
        Attempt(client, children, claimed).run(ENTRY)
    children.close()
    client.close()
    assert [status(desk, one) for one in tasks] == ["Completed"] * 3


def status(desk: Desk, task: UUID) -> str:
    return desk.task(task).status.value
