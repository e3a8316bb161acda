"""Targets made by workers: the server, the worker and its child are processes, Spark is real."""

from __future__ import annotations

import json

from tallyman.registry.task.tasks import Tasks
from tests.workers.conftest import ALL
from tests.workers.service import Service
from tests.world.waiting import wait_until


def totals(service: Service, day: str) -> list[object]:
    """List the published totals of a day; before the first publication there are none."""
    if not service.home.heads().get("sum"):
        return []
    return [row[1] for row in service.home.rows("sum") if str(row[0]) == day]


def test_a_submitted_run_is_published_once_and_then_unchanged(service: Service) -> None:
    home, day = service.home.numbers("2025-02-01", 1, 2, 3), "2025-02-01"
    result = service.run("first", "+report", "--partition", day)
    assert (result["status"], len(result["published"])) == ("success", 3)
    assert totals(service, day) == [6]
    assert {home.states("first")[asset] for asset in ALL} == {("success", 1)}
    [commit] = [one for one in home.ok("commits") if one["run"] == "first"]
    assert len(commit["moved"]) == 3
    home.ok("verify", "run", "first")
    assert home.damaged() == []
    sealed = json.loads((home.folder("first") / "processing_report.json").read_text())
    assert (sealed["status"], len(sealed["assets"])) == ("success", 3)
    events = (home.folder("first") / "lineage" / "job_events.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["eventType"] for line in events]
    assert (kinds[0], kinds[-1], kinds.count("START")) == ("START", "COMPLETE", 4)

    assert service.run("again", "+report", "--partition", day)["commit"] is None
    assert {home.states("again")[asset][0] for asset in ALL} == {"skipped"}
    assert [one for one in home.ok("commits") if one["run"] == "again"] == []


def test_a_failed_target_ends_its_run_and_a_resume_goes_on(service: Service) -> None:
    home, day = service.home, "2025-02-02"
    home.data(f"{day}/raw.jsonl", *[{"id": "1", "n": 1, "day": day}] * 2)  # a key twice
    assert service.run("bad", "+report", "--partition", day, code=1)["status"] == "failed"
    assert [home.states("bad")[asset][0] for asset in ALL] == ["failed", "pending", "pending"]
    [[message]] = home.sql(
        "SELECT metadata -> 'error' ->> 'code' FROM materializations m JOIN runs r "
        "ON r.id = m.run_id WHERE r.name = 'bad' AND m.status = 'failed'"
    )
    assert message == home.ok("show", "bad")["assets"][0]["error"]["code"]
    home.numbers(day, 4, 5)
    assert home.ok("resume", "bad")["status"] == "success"
    assert totals(service, day) == [9]
    assert home.states("bad")["numbers"] == ("success", 2)
    home.ok("verify", "run", "bad")


def test_a_run_that_waits_goes_on_by_itself_after_a_yes(service: Service) -> None:
    home, day = service.home.numbers("2025-02-03", 1, 999_999, 7), "2025-02-03"
    reply = home.printed("run", "+report", "--partition", day, "--run-id", "big")
    assert (reply.code, service.status("big")) == (1, "waiting_approval"), str(reply)
    assert f"tallyman approve big sum --partition d:{day}" in reply.stdout
    assert totals(service, day) == []
    assert all(status == "Completed" for _, status in service.tasks("big"))
    decided = home.printed("approve", "big", "sum", "--partition", day, "--set", "limit=2000000")
    assert "it goes on by itself:  tallyman watch big" in decided.stdout
    assert home.ok("watch", "big")["status"] == "success"
    [asked] = [row for row in home.ok("approvals") if row["run"] == "big"]
    assert (asked["status"], asked["modifications"]) == ("approved", {"limit": "2000000"})
    assert totals(service, day) == [1_000_007]
    assert home.states("big")["report"] == ("success", 1)
    home.ok("verify", "run", "big")


def test_a_no_ends_the_run(service: Service) -> None:
    home, day = service.home.numbers("2025-02-04", 1, 999_999, 8), "2025-02-04"
    service.run("refused", "+report", "--partition", day, code=1)
    home.ok("reject", "refused", "sum", "--partition", day)
    assert service.status("refused") == "failed"
    assert (totals(service, day), home.states("refused")["report"]) == ([], ("pending", 0))


def test_a_task_without_a_run_gets_one_and_publishes_when_it_completes(service: Service) -> None:
    home, day = service.home.numbers("2025-02-05", 1, 2), "2025-02-05"
    service.run("input", "numbers", "--partition", day)
    first = service.react("every", "one")
    service.completed(first)
    assert {row[0] for row in home.rows("every")} >= {"1", "2"}
    database, owner = home.project.database, service.owner
    task = database.durably(lambda tx: Tasks(tx).get(first, owner))
    run = home.ok("show", str(task.run_id))
    assert (run["status"], [one["rows_out"] > 0 for one in run["assets"]]) == ("success", [True])
    home.ok("verify", "run", str(task.run_id))

    second = service.react("every", "two")  # nothing has changed
    service.completed(second)
    again = database.durably(lambda tx: Tasks(tx).get(second, owner))
    assert home.states(str(again.run_id))["every"][0] == "skipped"


def test_a_target_that_cannot_be_assigned_fails_with_the_reason(service: Service) -> None:
    day = "2025-02-06"
    service.home.numbers(day, 3)
    service.run("known", "numbers", "--partition", day)
    task = service.react("report", "early", partition="d:2031-01-01")
    wait_until(lambda: service.task(task).status.value == "Failed")
    assert (service.task(task).error or {})["code"] == "dependency_not_ready"
