"""`tallyman server` and `tallyman worker` as processes: they work, die, drain and take over."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.operate.shop import TWICE, Shop, alive
from tests.world.waiting import wait_until


def test_a_server_with_a_database_of_its_own_does_the_work_and_says_so(
    tmp_path: Path, with_database: Callable[[Path], Path]
) -> None:
    (tmp_path / "shop").mkdir()
    with_database(tmp_path / "shop")
    shop = Shop.make(tmp_path / "shop", None)
    server = shop.start("server", "--bind", "127.0.0.1:0")
    assert "1 worker here" in server.saying("listens at http://127.0.0.1:")
    assert "tallyman worker --server http" in server.saying("another worker")
    assert "Ctrl-C" in server.saying("to end it")
    good, bad = shop.add("echo", asset="orders"), shop.add("raises", asset="sales")
    assert shop.finished(good, bad) == ["Completed", "Failed"]
    assert "orders   completed   " in server.saying("orders ")
    assert server.saying("sales ").endswith("attempt 1   ValueError: no such column")
    listed = shop.home.printed("tasks").stdout
    assert "orders" in listed
    assert "ValueError: no such column" in listed
    said = server.drained()
    assert "ending" in said
    assert said.splitlines()[-1].endswith("ended")
    shop.close()


def test_a_server_that_drains_finishes_what_has_begun_and_begins_nothing(shop: Shop) -> None:
    server = shop.server("--workers", "2")
    [first, second] = server.workers(2)
    task, gate = shop.held()
    gate.reached()
    server.signal(signal.SIGTERM)
    server.saying("ending")
    later = shop.add("echo")
    gate.open()
    assert server.wait() == 0
    assert shop.status(task) == "Completed"
    assert (shop.status(later), shop.task(later).attempt) == ("Queued", 0)
    assert not alive(first)
    assert not alive(second)
    [token] = shop.project.workers.tokens()
    assert token.revoked_at is not None
    # Nothing but the worker knows the token, which comes on stdin.
    assert not [file for file in shop.folder.rglob("*token*") if file.is_file()]


def test_a_second_signal_ends_a_server_at_once(shop: Shop) -> None:
    server = shop.server()
    [worker] = server.workers()
    task, gate = shop.held()
    child = gate.reached()
    server.signal(signal.SIGINT)
    server.saying("ending")
    server.signal(signal.SIGINT)
    assert server.wait() == 130
    assert "at once" in server.text
    wait_until(lambda: not alive(worker) and not alive(child))
    assert shop.status(task) == "Running"  # until its lease ends


def test_a_killed_worker_is_started_again_and_its_task_taken_over(shop: Shop) -> None:
    server = shop.server()
    [worker] = server.workers()
    task, gate = shop.held(lease_s=1, retry=TWICE)
    child = gate.reached()
    os.kill(worker, signal.SIGKILL)
    said = json.loads(server.saying("was ended by signal 9"))
    assert (said["worker"], said["exit_code"]) == (1, -9)
    wait_until(lambda: not alive(child))
    assert gate.reached(2) != child
    gate.open()
    assert shop.finished(task) == ["Completed"]
    assert shop.outcomes(task) == ["lease_expired", "success"]
    assert json.loads(server.saying("was silent for"))["again"] is True
    assert server.workers() != [worker]


def test_the_worker_of_a_killed_server_reports_to_the_next_one_and_ends(shop: Shop) -> None:
    first = shop.server()
    [worker] = first.workers()
    task, gate = shop.held()
    gate.reached()
    first.kill()
    second = shop.server(bind=first.address.removeprefix("http://"))
    gate.open()
    assert shop.finished(task) == ["Completed"]
    assert shop.outcomes(task) == ["success"]
    wait_until(lambda: not alive(worker))
    second.drained()
    third = shop.server("--workers", "0")  # revokes the token of the one that was killed
    valid = [token for token in shop.project.workers.tokens() if token.revoked_at is None]
    assert len(valid) == 1
    third.drained()
    assert "dispatch" not in third.text


def test_two_servers_work_on_one_database_at_the_same_time(shop: Shop) -> None:
    servers = [shop.server(), shop.server()]
    held = [shop.held(name) for name in ("left", "right")]
    for _, gate in held:
        gate.reached()  # each has one worker with one place: both are at work
        gate.open()
    tasks = [task for task, _ in held] + [shop.add("echo") for _ in range(20)]
    assert set(shop.finished(*tasks)) == {"Completed"}
    assert {tuple(shop.outcomes(task)) for task in tasks} == {("success",)}
    for server in servers:
        server.drained()
    ended = [json.loads(line) for server in servers for line in server.lines]
    reported = [line["task_id"] for line in ended if line.get("status") == "Completed"]
    assert sorted(reported) == sorted(map(str, tasks))


def test_health_and_figures_are_there_for_others(shop: Shop) -> None:
    server = shop.server("--workers", "0")
    shop.add("echo")

    def asked(path: str) -> str:
        with urllib.request.urlopen(f"{server.address}{path}") as answer:
            return str(answer.read().decode())

    assert json.loads(asked("/healthz")) == {"status": "ok"}
    assert json.loads(asked("/readyz")) == {"status": "ready", "workers": {}}
    assert re.search(r'tallyman_tasks\{status="Queued"\} [1-9]', asked("/metrics"))


def test_a_worker_elsewhere_needs_a_token_and_drains(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "w.token"
    assert shop.home.ok("worker", "token", "create", "far", "--file", str(file)) == {
        "name": "far", "file": str(file),
    }  # fmt: skip
    assert file.stat().st_mode & 0o777 == 0o600
    shop.home.ok("pools", "set", "api", "--slots", "1", "--env", "KEY=secret")
    server = shop.server("--workers", "0", bind=f"unix:{tmp_path / 'socket'}")
    words = ("worker", "--server", server.address, "--token-file", str(file))
    apart = shop.start(*words, "--pool", "api", "--concurrency", "2")
    apart.saying("2 tasks at once of api")
    other = shop.add("echo")
    task, gate = shop.held(pool="api")
    gate.reached()
    assert str(shop.task(task).worker).startswith("far/")
    [listed] = shop.home.ok("worker", "token", "ls")[-1:]
    assert (listed["name"], listed["running"]) == ("far", 1)
    apart.signal(signal.SIGTERM)
    apart.saying("ending")
    gate.open()
    assert apart.wait() == 0
    assert shop.status(task) == "Completed"
    assert shop.status(other) == "Queued"  # its pool has no worker
    shop.home.ok("worker", "token", "revoke", "far")
    refused = shop.start(*words)
    assert refused.wait() == 1
    assert "tallyman worker token create" in refused.text
    assert file.read_text().strip() not in refused.text


def test_mistakes_are_named(shop: Shop, tmp_path: Path) -> None:
    server = shop.server("--workers", "0")
    port = server.address.rpartition(":")[2]
    two, open_to_all = tmp_path / "two", tmp_path / "open"
    for file, text, mode in ((two, "a b", 0o600), (open_to_all, "tmw_x", 0o640)):
        file.write_text(text)
        file.chmod(mode)
    for words, expected in {
        ("server", "--bind", f"127.0.0.1:{port}"): "Address already in use. Choose another port",
        ("server", "--bind", "0.0.0.0:7401"): "would travel unencrypted",
        ("server", "--bind", "nowhere"): "expected host:port or unix:path",
        ("server", "--workers", "65"): "--workers is a number from 0 to 64, not 65",
        ("worker", "--server", "http://x"): "a worker needs --server URL and --token-file FILE",
        ("worker", "--server", "x", "--token-file", str(two)): "not 2 words",
        ("worker", "--server", "x", "--token-file", str(open_to_all)): (
            f"others can read it (640): chmod 600 {open_to_all}"
        ),
        ("worker", "--server", "x", "--token-file", str(tmp_path / "none")): "cannot be read",
        ("worker", "token", "create", "a b"): "the name of a token: expected letters",
        ("worker", "token", "revoke", "nobody"): "there is no worker token 'nobody'",
    }.items():
        reply = shop.home.printed(*words)
        assert (reply.code, expected in reply.stderr) == (2, True), (words, reply)


def test_the_name_of_a_token_is_taken_until_it_is_revoked(shop: Shop) -> None:
    words = ("create", "same")
    first = shop.home.ok("worker", "token", *words)["token"]
    assert first.startswith("tmw_")
    reply = shop.home.printed("worker", "token", *words)
    assert (reply.code, "revoke that token first" in reply.stderr) == (4, True)
    shop.home.ok("worker", "token", "revoke", "same")
    assert shop.home.ok("worker", "token", *words)["token"] != first
