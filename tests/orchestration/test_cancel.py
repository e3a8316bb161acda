"""A cancel is heard soon; a process that does not listen loses the run."""

from __future__ import annotations

from tests.world.numbers import PIPELINE, NumbersHome
from tests.world.waiting import wait_until

DAY = "2025-01-01"
# Sleeps for each record: it would take long enough to be canceled in the middle.
SLOW = PIPELINE.replace('"n * 2"', '"slept(n, 5) * 2"')


def test_a_canceled_run_stops_soon_and_resumes_later(home: NumbersHome) -> None:
    home.pipeline(SLOW)
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "slow", "--json")
    wait_until(lambda: list((home.path / "runs").glob("*_slow/.staging/*/doubled/*")))
    canceled = home.ok("cancel", "slow")
    assert canceled["status"] == "canceled"
    code, _, err = running.wait(60)
    assert code == 130, err
    assert home.states("slow") == {
        "numbers": ("success", 1),
        "doubled": ("canceled", 1),
        "sum": ("pending", 0),
    }
    again = home.tallyman("cancel", "slow")
    assert (again.code, again.json["error"]["code"]) == (4, "not_running")
    home.pipeline(PIPELINE)
    assert home.ok("resume", "slow")["status"] == "success"
    assert home.states("slow")["numbers"] == ("success", 1)
    actors = home.sql("SELECT event_type FROM audit_log WHERE event_type LIKE 'run.%' ORDER BY id")
    assert [event for [event] in actors] == [
        "run.started",
        "run.cancel_requested",
        "run.canceled",
        "run.resumed",
        "run.success",
    ]


def test_a_process_that_does_not_listen_loses_the_run(home: NumbersHome) -> None:
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "deaf", "--json")
    wait_until(lambda: list((home.path / "runs").glob("*_deaf/.staging/*")))
    running.pause()
    assert home.ok("cancel", "deaf", "--timeout", "2")["status"] == "canceled"
    assert home.ok("resume", "deaf")["status"] == "success"
    running.go_on()
    code, out, err = running.wait(120)
    # It woke up when another had finished its work, and touched nothing of that.
    assert code == 4, (out, err)
    assert {status for status, _ in home.states("deaf").values()} == {"success"}
    assert home.ok("verify", "deaf", "--exact")["balanced"]
