"""Code of users in a child: what it sees, what it reaches, and that its task completes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from tallyman.worker.child_process import ChildKind
from tallyman.worker.confine import why_not
from tallyman.worker.warm_children import WarmChildren
from tests.dispatch import processes
from tests.dispatch.desk import Desk
from tests.dispatch.test_warm_child import messages_of
from tests.world.waiting import wait_until

needs_a_kernel_that_can = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
REFUSED = "PermissionError"
MAY_BE_SEEN = {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "JAVA_HOME",
               "JAVA_TOOL_OPTIONS", "HOME", "TMPDIR", "REGION"}  # fmt: skip


def socket_of(database: str) -> Path:
    """The socket that a PostgreSQL on this machine listens at."""
    given = {name: values[0] for name, values in parse_qs(urlsplit(database).query).items()}
    found = Path(given["host"]) / f".s.PGSQL.{given.get('port', 5432)}"
    assert found.is_socket()
    return found


@needs_a_kernel_that_can
def test_an_operator_finds_no_token_no_address_and_no_way_out(
    desk: Desk, address: str, tmp_path: Path
) -> None:
    token = tmp_path / "worker.token"
    token.write_text(desk.token(f"w-{uuid4()}"))
    server = processes.server(address, tmp_path)
    one = processes.worker(server.first, token)
    dataset, outside = uuid4(), tmp_path / "outside"
    config = {
        "dataset": str(dataset),
        "files": {"token": str(token), "hosts": "/etc/hosts", "tests": str(tmp_path)},
        "internal": f"{server.first}/internal/task-fetch?task_id={uuid4()}",
        "socket": str(socket_of(address)),
        "outside": str(outside),
    }
    [task] = desk.add(kind="operator", config=config)
    wait_until(lambda: desk.task(task).finished_at)
    assert desk.task(task).error is None
    assert desk.outcomes(task) == ["success"]
    rows = desk.rows("SELECT scope ->> 'cursor' AS said FROM events")
    said = dict(row["said"].split(": ", 1) for row in rows)
    environment = said.pop("environment").removeprefix("done ")
    assert {name.strip("[]' ") for name in environment.split(",")} <= MAY_BE_SEEN
    assert said.pop("a file of its own") == "done 1"
    assert said.pop("by another program") == "CalledProcessError"
    assert said == dict.fromkeys(
        ["token", "hosts", "tests", "environment of the worker", "signal to the worker",
         "internal, without a token", "socket of the database", "a file outside"], REFUSED,
    )  # fmt: skip
    assert not outside.exists()
    assert one.drained() == "drained"
    assert server.drained() == "drained"


def test_without_confinement_the_same_code_would_succeed(
    desk: Desk, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the refusals above are those of the confinement."""
    monkeypatch.setenv("PYTHONPATH", str(processes.ROOT))
    token = tmp_path / "worker.token"
    token.write_text("secret")
    config = {
        "dataset": str(uuid4()),
        "files": {"token": str(token)},
        "internal": "http://127.0.0.1:9/",
        "socket": str(socket_of(address)),
        "outside": str(tmp_path / "outside"),
    }
    children = WarmChildren(1)
    given = {"config": config}
    child = children.take(ChildKind.of("tests.dispatch.work:operator", given))
    child.begin(given)
    found = messages_of(child)[-1]["result"]["found"]
    children.give_back(child, fit=True)
    children.close()
    assert found["token"] == "done secret"
    assert found["socket of the database"] == "done None"
    assert found["signal to the worker"] == "done None"


@needs_a_kernel_that_can
def test_a_confined_child_does_one_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(processes.ROOT))
    children, pids = WarmChildren(1), []
    for _ in range(2):
        given = {"config": {"say": "x"}}
        child = children.take(ChildKind.of("tests.dispatch.work:warm", given, confined=True))
        child.begin(given)
        pids.append(messages_of(child)[-1]["result"]["found"]["pid"])
        children.give_back(child, fit=True)
    children.close()
    assert len(set(pids)) == 2


def test_a_machine_that_cannot_confine_does_not_run_the_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An old kernel, as far as the child can see."""
    (tmp_path / "sitecustomize.py").write_text(
        "import platform\nplatform.machine = lambda: 'm68k'\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{processes.ROOT}")
    children, marker = WarmChildren(1), tmp_path / "ran"
    given = {"config": {"place": str(marker)}}
    child = children.take(ChildKind.of("tests.dispatch.work:warm", given, confined=True))
    child.begin(given)
    result = messages_of(child)[-1]["result"]
    children.give_back(child, fit=False)
    assert (result["status"], result["retryable"]) == ("Failed", False)
    assert result["error"]["code"] == "cannot_confine"
    assert "linux on m68k" in result["error"]["message"]
    assert not marker.exists()
