"""With a server, the commands that make runs print the same and end with the same code."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable

from tests.dispositions import at_a_terminal
from tests.workers.service import Service
from tests.world.home import Home
from tests.world.reply import Reply
from tests.world.waiting import wait_until

PASSING = (
    r"\d\d\d\d-\d\d-\d\d",
    r"[0-9a-f]{8}",
    r"v\d+( \(was v\d+\))?",
    r"\d+\.\d s",
    r"\d{4}_\d{6}",
)
"""What differs between two runs: days, ids, versions, seconds, the time of the folder."""


def plain(reply: Reply, run: str) -> tuple[int, str, str]:
    texts = [reply.stdout, reply.stderr]
    for pattern in PASSING:
        texts = [re.sub(pattern, "…", text) for text in texts]
    names = rf"{run}|\w+_(?:here|there)"
    out, err = (re.sub(names, "RUN", text) for text in texts)
    return reply.code, out, err


def both(home: Home, name: str, *words: str, days: tuple[str, str]) -> list[tuple[int, str, str]]:
    """Run the same on two days: by this process, and by workers."""
    made = []
    for by, day, server in (("here", days[0], "none"), ("there", days[1], "")):
        more = {"TALLYMAN_SERVER": server} if server else {}
        run = f"{name}_{by}"
        given = [word.replace("DAY", day) for word in words]
        made.append(plain(home.printed(*given, "--run-id", run, **more), run))
    return made


def test_a_run_prints_the_same_with_and_without_a_server(service: Service) -> None:
    home = service.home.numbers("2025-04-01", 1, 2).numbers("2025-04-02", 3, 4)
    days = ("2025-04-01", "2025-04-02")
    here, there = both(home, "made", "run", "+report", "-p", "DAY", days=days)
    assert there == here
    assert (there[0], "published" in there[1], "balanced" in there[1]) == (0, True, True)
    here, there = both(home, "same", "run", "+report", "-p", "DAY", days=days)
    assert there == here
    assert "unchanged" in there[1]


def test_a_failed_run_prints_the_same_with_and_without_a_server(service: Service) -> None:
    home, days = service.home, ("2025-04-03", "2025-04-04")
    for day in days:
        home.data(f"{day}/raw.jsonl", *[{"id": "1", "n": 1, "day": day}] * 2)  # a key twice
    here, there = both(home, "failed", "run", "+report", "-p", "DAY", days=days)
    assert there == here
    assert (there[0], "failed" in there[1]) == (1, True)


def test_a_plan_is_applied_by_workers(service: Service) -> None:
    home = service.home.numbers("2025-06-01", 1, 2)
    service.run("before", "+every", "--partition", "2025-06-01")
    home.edit('"n * 2"', '"n * 3"')
    plan = home.ok("plan")
    applied = home.ok("apply")
    assert applied["status"] == "success"
    assert "every" in applied["published"]  # and what other tests have made of it
    [commit] = [one for one in home.ok("commits") if one["run"] == applied["run_id"]]
    assert commit["kind"] == "apply"
    assert {status for _, status in service.tasks(applied["run_id"])} == {"Completed"}
    again = home.tallyman("apply", str(plan["id"]))
    assert (again.code, again.json["error"]["code"]) == (4, "plan_outdated")


def test_ctrl_c_ends_the_watching_and_not_the_run(service: Service) -> None:
    home = service.home.numbers("2025-07-01", 1, 2)
    with at_a_terminal():
        watching = home.installed("run", "+report", "-p", "2025-07-01", "--run-id", "left")
    service.queued("left")
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130, err
    assert err.splitlines()[-3:] == [
        "run left goes on without this command",
        "to watch it:  tallyman watch left",
        "to stop it:   tallyman cancel left",
    ]
    watched = home.ok("watch", "left")
    assert (watched["status"], len(watched["published"])) == ("success", 3)


def test_a_canceled_run_ends_without_a_commit(service: Service) -> None:
    home = service.home
    days = [f"2025-03-{day:02d}" for day in range(1, 9)]
    for day in days:
        home.numbers(day, 1)
    words = ("backfill", "numbers", "--from", days[0], "--to", days[-1])
    watching = home.start(*words, "--meta", "test=cancel", "--json")
    wait_until(lambda: home.ok("runs", "--meta", "test=cancel"))
    [run] = [one["run_id"] for one in home.ok("runs", "--meta", "test=cancel")]
    service.queued(run)
    home.ok("cancel", run, "--timeout", "60")
    assert (watching.wait()[0], service.status(run)) == (130, "canceled")
    assert "Queued" not in {status for _, status in service.tasks(run)}
    assert [one for one in home.ok("commits") if one["run"] == run] == []


def test_a_run_that_came_too_late_is_a_conflict(new_service: Callable[[], Service]) -> None:
    service = new_service()
    home, day = service.home.numbers("2025-02-01", 1, 2), "2025-02-01"
    home.ok("run", "numbers", "-p", day)
    service.server()
    late = home.start("run", "numbers", "-p", day, "--run-id", "late", "--json")
    service.queued("late")
    home.numbers(day, 1, 2, 3, 4)
    home.ok("run", "numbers", "-p", day, TALLYMAN_SERVER="none")
    home.numbers(day, 1, 2, 3)
    service.worker()
    code, out, err = late.wait()
    assert (code, json.loads(out).get("code")) == (4, "conflict"), out + err
    assert service.status("late") == "failed"
    assert len(home.rows("numbers")) == 4


def test_without_its_server_no_run_is_begun(new_service: Callable[[], Service]) -> None:
    home = new_service().home.numbers("2025-02-01", 1)
    gone = {"TALLYMAN_SERVER": "http://127.0.0.1:1"}
    reply = home.printed("run", "numbers", "-p", "2025-02-01", **gone)
    assert (reply.code, home.count("runs", "tasks")) == (1, {"runs": 0, "tasks": 0})
    assert (
        "runs are made by the server at http://127.0.0.1:1, and it does not answer" in reply.stderr
    )
    assert "TALLYMAN_SERVER=none tallyman run" in reply.stderr
    for words in (("--master", "local[1]"), ("--spark-conf", "a=b")):
        refused = home.printed("run", "numbers", "-p", "2025-02-01", *words, **gone)
        assert (refused.code, "--master and --spark-conf are for" in refused.stderr) == (2, True)


def test_a_backfill_counts_partitions(service: Service) -> None:
    home = service.home.numbers("2025-05-01", 1).numbers("2025-05-02", 2).numbers("2025-05-04", 4)
    home.data("2025-05-03/raw.jsonl", *[{"id": "1", "n": 1, "day": "2025-05-03"}] * 2)
    words = ("backfill", "numbers", "--from", "2025-05-01", "--to", "2025-05-04")
    reply = home.tallyman(*words)
    assert (reply.code, reply.json["succeeded"], reply.json["failed"]) == (1, 3, 1), str(reply)
    home.numbers("2025-05-03", 3)
    reply = home.tallyman(*words)
    assert (reply.code, reply.json["succeeded"], reply.json["skipped"]) == (0, 1, 3), str(reply)
