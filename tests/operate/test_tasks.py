"""`tallyman tasks` and `tallyman pools`: what an operator sees and does."""

from __future__ import annotations

from tests.operate.shop import TWICE, Shop
from tests.world.waiting import wait_until


def test_tasks_are_held_released_canceled_and_started_again(shop: Shop) -> None:
    first, second = shop.add(asset="orders"), shop.add(asset="sales")
    [held] = shop.home.ok("tasks", "hold", "--all", "--asset", "orders")
    assert (held["task_id"], held["held_by"]) == (str(first), "ann")
    server = shop.server()
    assert shop.finished(second) == ["Completed"]
    assert shop.status(first) == "Queued"
    again = shop.home.printed("tasks", "hold", str(first))
    assert (again.code, "is held by ann: holding it is not possible" in again.stderr) == (4, True)
    said = shop.home.printed("tasks", "release", "--all").stdout
    assert said == f"{str(first)[:8]}  orders  released\n"
    assert shop.finished(first) == ["Completed"]
    for verb, word in {"cancel": "canceling it", "release": "releasing it"}.items():
        late = shop.home.printed("tasks", verb, str(first)[:13])
        assert (late.code, f"{word} is not possible" in late.stderr) == (4, True)
    stopping, gate = shop.held(retry=TWICE)
    gate.reached()
    assert "was asked to stop" in shop.home.printed("tasks", "cancel", str(stopping)).stdout
    assert shop.finished(stopping) == ["Canceled"]
    gate.open()
    shop.home.ok("tasks", "retry", str(stopping))
    assert shop.finished(stopping) == ["Completed"]
    assert shop.outcomes(stopping) == ["canceled", "success"]
    assert "0 tasks queued again" in shop.home.printed("tasks", "retry", "--all").stdout
    server.drained()
    audited = [row["event_type"] for row in shop.home.ok("audit")]
    wanted = ["task.retried", "task.canceled", "task.released", "task.held"]
    assert [event for event in audited if event.startswith("task.")] == wanted


def test_a_task_is_shown_with_its_attempts_and_their_errors(shop: Shop) -> None:
    task = shop.add("raises", asset="sales", config={"io": True}, retry=TWICE)
    other = shop.add("echo", asset="orders")
    assert "queued" in shop.home.printed("tasks", "--asset", "sales").stdout
    server = shop.server()
    assert shop.finished(task, other) == ["Failed", "Completed"]
    [failed] = shop.home.ok("tasks", "ls", "--status", "failed")
    assert (failed["task_id"], failed["attempt"], failed["asset"]) == (str(task), 2, "sales")
    assert failed["error"]["message"] == "OSError: the disk went away"
    shown = shop.home.ok("tasks", "show", str(task)[:12])
    assert [row["outcome"] for row in shown["attempts"]] == ["retryable_error"] * 2
    assert {row["error"]["code"] for row in shown["attempts"]} == {"io_error"}
    text = shop.home.printed("tasks", "show", str(task)).stdout
    assert text.count("retryable error") == 2
    assert "OSError: the disk went away" in text
    assert "2 of 2" in shop.home.printed("tasks", "ls", "--limit", "2").stdout
    [again] = shop.home.ok("tasks", "retry", "--all", "--asset", "sales")
    assert (again["status"], again["failures"]) == ("Queued", 0)
    assert shop.finished(task) == ["Failed"]
    assert (
        "attempt    4, 2 of 2 since the retry"
        in shop.home.printed("tasks", "show", str(task)).stdout
    )
    server.drained()


def test_mistakes_about_tasks_are_named(shop: Shop) -> None:
    shop.add()
    for words, expected in {
        ("tasks", "show", "ffffffff-0000"): "there is no task 'ffffffff-0000'",
        ("tasks", "show", "100%"): "there is no task '100%'",
        ("tasks", "ls", "--status", "faild"): "there is no status 'faild'. Did you mean 'failed'?",
        ("tasks", "cancel"): "name tasks, or give --all",
        ("tasks", "cancel", "x", "--all"): "name tasks, or give --all",
        ("tasks", "cancel", "x", "--asset", "y"): "name tasks without them",
        ("tasks", "ls", "--run", "nowhere"): "there is no run 'nowhere'",
        ("pools", "set", "Api", "--slots", "1"): "expected lower-case letters",
        ("pools", "set", "api"): "give --slots N or --unlimited",
        ("pools", "set", "api", "--slots", "0"): "a pool has 1 to 1000 slots, not 0",
        ("pools", "set", "api", "--slots", "1", "--env", "1:A=b"): "there is no slot 1",
        ("pools", "set", "api", "--slots", "1", "--env", "A"): "expected name=value",
        ("pools", "set", "api", "--slots", "1", "--env", "A B=c"): "cannot be the name",
        ("pools", "set", "api", "--unlimited", "--env", "A=b"): "an unlimited pool has none",
    }.items():
        reply = shop.home.printed(*words)
        assert (reply.code, expected in reply.stderr) == (2, True), (words, reply)


def test_a_pool_limits_how_many_tasks_run_and_shows_no_values(shop: Shop) -> None:
    env = ("--env", "REGION=eu", "--env", "0:KEY=hidden-a", "--env", "1:KEY=hidden-b")
    made = shop.home.printed("pools", "set", "api", "--slots", "2", *env)
    assert made.stdout == "pool api: 2 tasks at once\n"
    held = [shop.held(str(n), pool="api", asset=f"a{n}") for n in range(3)]
    server = shop.server("--workers", "3")
    wait_until(lambda: sum(gate.begun() for _, gate in held) == 2)
    listed = shop.home.ok("pools", "ls")
    assert listed[0] == {
        "pool": "api", "slots": 2, "taken": 2, "running": 2, "queued": 1,
        "variables": ["KEY", "REGION"],
    }  # fmt: skip
    assert listed[1]["slots"] is None
    assert "hidden" not in shop.home.printed("pools").stdout
    refused = shop.home.printed("pools", "set", "api", "--slots", "1")
    assert (refused.code, "1 of them are taken" in refused.stderr) == (4, True)
    shop.home.ok("pools", "set", "api", "--slots", "3")
    for _, gate in held:
        gate.reached()  # the third too, without a restart
        gate.open()
    assert shop.finished(*[task for task, _ in held]) == ["Completed"] * 3
    server.drained()
