"""Workers and servers as processes: the work is done, also when some of them die."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tallyman.control.dispatch import operate
from tallyman.domain.task.retry import RetryPolicy
from tests.dispatch import processes
from tests.dispatch.desk import Desk
from tests.world.waiting import wait_until


@pytest.fixture
def token_file(desk: Desk, tmp_path: Path) -> Path:
    file = tmp_path / "worker.token"
    file.write_text(desk.token(f"w-{uuid4()}"))
    return file


@pytest.fixture(scope="module")
def place(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = processes.server(address, tmp_path_factory.mktemp("server"))
    yield started.first
    started.kill()


def ended(desk: Desk, *tasks: UUID) -> None:
    wait_until(lambda: all(desk.task(task).finished_at for task in tasks))


def error_of(desk: Desk, task: UUID) -> dict[str, str]:
    found = desk.task(task).error
    assert found is not None
    return dict(found)


def test_a_worker_does_the_work_and_reports_what_went_wrong(
    desk: Desk, place: str, token_file: Path, tmp_path: Path
) -> None:
    first, second = uuid4(), uuid4()
    desk.listen(first, "clean", kind="echo", config={"events": [{"dataset_uuid": str(second)}]})
    desk.listen(second, "totals", kind="echo", config={})
    cursors = [{"dataset_uuid": str(first), "cursor": str(n)} for n in range(3)]
    config = {"meanwhile": cursors[:2], "events": cursors[1:]}
    [feed] = desk.add(asset="feed", kind="echo", config=config)
    once = RetryPolicy(attempts=1)
    [bug] = desk.add(asset="bug", kind="raises")
    [disk] = desk.add(asset="disk", kind="raises", config={"io": True}, retry=once)
    [died] = desk.add(asset="died", kind="crash", retry=once)
    [odd] = desk.add(asset="odd", kind="unheard")
    bad = {"events": [{"dataset_uuid": "not a uuid"}]}
    [liar] = desk.add(asset="liar", kind="echo", config=bad)
    hasty = {"meanwhile": bad["events"]}
    [early] = desk.add(asset="early liar", kind="echo", config=hasty)
    desk.pool("api", [{"API_KEY": "of slot 0"}])
    seen = tmp_path / "seen.json"
    [spy] = desk.add(asset="spy", kind="spy", pool="api", config={"place": str(seen)})
    slow = RetryPolicy(attempts=1, timeout_s=1)
    hangs = {"place": str(tmp_path / "hangs"), "stubborn": True}
    [late] = desk.add(asset="late", kind="hang", retry=slow, config=hangs)
    one = processes.worker(place, token_file, 3, "default", "api")
    ended(desk, feed, bug, disk, died, odd, liar, early, spy, late)
    wait_until(lambda: [t.status.value for t in desk.tasks("totals")].count("Completed") == 3)
    assert one.drained() == "drained"
    assert len(desk.tasks("clean")) == 3
    assert desk.outcomes(feed) == ["success"]
    expected = {"code": "execution_error", "message": "ValueError: no such column"}
    assert (desk.outcomes(bug), error_of(desk, bug)) == (["fatal_error"], expected)
    assert desk.outcomes(disk) == ["retryable_error"]
    message = "the process was ended by signal 9, without a result"
    assert error_of(desk, died) == {
        "code": "execution_error", "message": message, "output": "out of luck",
    }  # fmt: skip
    assert error_of(desk, odd)["code"] == "unknown_kind"
    assert error_of(desk, liar)["code"] == "invalid_request"
    assert (desk.outcomes(early), error_of(desk, early)["code"]) == (
        ["fatal_error"],
        "invalid_request",
    )
    assert error_of(desk, late)["code"] == "timeout"
    check_what_was_seen(json.loads(seen.read_text()), token_file, desk)


def check_what_was_seen(seen: dict[str, object], token_file: Path, desk: Desk) -> None:
    """Neither the token, nor the lease, nor the way to the server or the database."""
    env = seen["env"]
    assert isinstance(env, dict)
    assert env["API_KEY"] == "of slot 0"
    assert not [name for name in env if name.startswith(("TALLYMAN", "PG"))]
    text = json.dumps(seen)
    assert token_file.read_text() not in text
    assert "secret" not in text
    assert "lease_token" not in text
    assert "socket:" not in text
    assert desk.address not in text


def test_a_killed_worker_is_taken_over_and_its_child_ends(
    desk: Desk, place: str, token_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setenv("TMPDIR", str(folders))
    place_file = tmp_path / "hangs"
    hangs = {"place": str(place_file)}
    [task] = desk.add(kind="hang", config=hangs, lease_s=1)
    one = processes.worker(place, token_file)
    wait_until(place_file.exists)
    child, grandchild = map(int, place_file.read_text().split())
    place_file.unlink()
    one.kill()
    wait_until(lambda: is_gone(child) and is_gone(grandchild))
    [left] = folders.iterdir()
    two = processes.worker(place, token_file)
    assert not left.exists()
    wait_until(place_file.exists)  # the reaper gave the first attempt up
    assert desk.outcomes(task) == ["lease_expired", None]
    with desk.database.transaction() as tx:
        operate.cancel(tx, desk.owner, task)
    ended(desk, task)
    assert desk.task(task).status.value == "Canceled"
    assert two.drained() == "drained"


def is_gone(process: int) -> bool:
    """True if there is no such process, or it only waits to be noticed."""
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True


def test_a_worker_whose_token_is_refused_ends(desk: Desk, place: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong"
    file.write_text("tmw_wrong")
    one = processes.worker(place, file)
    one.process.communicate(timeout=60)
    assert one.process.returncode == 1
