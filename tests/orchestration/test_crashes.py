"""What is known of a run whose process is gone, and what it takes to go on with it.

tests/publication kills a run at every point and resumes it.
"""

from __future__ import annotations

from tests.world.numbers import NumbersHome
from tests.world.waiting import wait_until

DAY = "2025-01-01"


def test_the_last_completed_step_of_a_killed_run_is_known(home: NumbersHome) -> None:
    killed = home.tallyman(
        "run", "+sum", "--partition", DAY, "--run-id", "k", TALLYMAN_CRASH_AT="output_moved@3"
    )
    assert killed.code == -9
    [summed] = [a for a in home.ok("show", "k")["assets"] if a["name"] == "sum"]
    assert (summed["status"], summed["last_completed_operation"]) == ("failed", "10_groupBy")


def test_a_resume_is_refused_while_the_run_is_at_work(home: NumbersHome) -> None:
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "busy")
    wait_until(lambda: list((home.path / "runs").glob("*_busy/.staging/*")))
    running.pause()
    refused = home.tallyman("resume", "busy")
    assert (refused.code, refused.json["error"]["code"]) == (4, "run_busy")
    running.kill()
    assert home.ok("resume", "busy")["status"] == "success"


def test_a_run_on_another_machine_is_gone_when_its_lease_is_over(home: NumbersHome) -> None:
    home.tallyman(
        "run", "numbers", "--partition", DAY, "--run-id", "far", TALLYMAN_CRASH_AT="folder_made"
    )
    home.sql("UPDATE runs SET executor_node = 'elsewhere/1@1'")  # its process cannot be looked for
    assert home.ok("show", "far")["status"] == "running"
    home.sql("UPDATE runs SET lease_until = now() - interval '1 second'")
    assert home.ok("show", "far")["status"] == "interrupted"
    assert home.ok("resume", "far")["status"] == "success"
