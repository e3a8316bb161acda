"""A result that needs a yes waits without holding anything, and is decided once."""

from __future__ import annotations

from tests.world.numbers import PIPELINE, NumbersHome
from tests.world.waiting import wait_until

DAY = "2025-01-01"
ASKING = (
    PIPELINE.replace(
        '@tm.asset(key="day", name="sum", partitioned_by=days)',
        '@tm.asset(key="day", name="sum", partitioned_by=days,\n'
        '          approval=tm.approval("large total", when="sum(total) > 1000000"))',
    )
    + """

@tm.asset(key="day", partitioned_by=days)
def report(sum):
    return sum.withColumn("text", "'total ' || total")
"""
)


def test_a_waiting_result_counts_only_after_a_yes(home: NumbersHome) -> None:
    home.pipeline(ASKING)
    home.ok("run", "+report", "--partition", DAY, "--run-id", "small")  # 30: nobody is asked
    home.numbers(DAY, 1, 999_999)
    waiting = home.tallyman("run", "+report", "--partition", DAY, "--run-id", "big")
    assert (waiting.code, waiting.json["status"]) == (1, "waiting_approval")
    assert home.states("big")["sum"] == ("waiting_approval", 1)
    assert home.states("big")["report"] == ("pending", 0)
    [asked] = home.ok("approvals", "--status", "pending")
    assert (asked["run"], asked["asset"], asked["message"]) == ("big", "sum", "large total")
    [[seconds]] = home.sql(
        "SELECT extract(epoch FROM timeout_at - inserted_at)::int FROM approvals"
    )
    assert seconds == "3600"

    # Nobody reads it before: the newest result of sum is still the small one.
    [up] = [r for r in home.ok("lineage", "up", "report", "--partition", DAY) if r["depth"] == 1]
    assert up["asset"] == "sum"
    again = home.tallyman("resume", "big")  # nothing to do but wait
    assert (again.code, home.states("big")["sum"]) == (1, ("waiting_approval", 1))

    home.ok("approve", "big", "sum", "--partition", DAY, "--reason", "seen", TALLYMAN_ACTOR="ann")
    second = home.tallyman("approve", "big", "sum", "--partition", DAY)
    assert (second.code, second.json["error"]["code"]) == (4, "already_decided")
    assert "ann" in second.json["error"]["message"]
    assert home.ok("resume", "big")["status"] == "success"
    assert home.states("big")["sum"] == ("success", 1)
    shown = {made["name"]: made for made in home.ok("show", "big")["assets"]}
    assert shown["sum"]["approval"]["by"] == "ann"
    [[actor, action]] = home.sql(
        "SELECT actor_id, action FROM audit_log WHERE event_type = 'approval.approved'"
    )
    assert (actor, action) == ("ann", "approved")


def test_a_rejected_and_an_expired_result_fail(home: NumbersHome) -> None:
    home.pipeline(ASKING).numbers(DAY, 1_000_000)
    home.tallyman("run", "+sum", "--partition", DAY, "--run-id", "no")
    rejected = home.ok("reject", "no", "sum", "--partition", DAY, "--reason", "too large")
    assert rejected["run"] == "failed"
    assert home.states("no")["sum"] == ("failed", 1)
    [error] = [a["error"] for a in home.ok("show", "no")["assets"] if a["name"] == "sum"]
    assert error["code"] == "checkpoint_rejected"
    assert "too large" in error["message"]

    home.tallyman("resume", "no")  # made again, and asked again
    assert home.states("no")["sum"] == ("waiting_approval", 2)
    home.sql("UPDATE approvals SET timeout_at = now() - interval '1 s' WHERE status = 'pending'")
    [run] = [run for run in home.ok("runs") if run["run_id"] == "no"]
    assert run["status"] == "failed"
    late = home.tallyman("approve", "no", "sum", "--partition", DAY)
    assert (late.code, "expired" in late.json["error"]["message"]) == (4, True)


def test_a_decision_while_the_run_is_at_work_leaves_it_alone(home: NumbersHome) -> None:
    text = ASKING.replace('when="sum(total) > 1000000"', "")
    home.pipeline(
        text
        + f"""

@tm.asset(key="id", partitioned_by=days)
def slow(numbers):
    return numbers.withColumn("n", "held(n, '{home.path / "decided"}')")
"""
    )
    home.ok("run", "+doubled", "--partition", DAY)
    words = ("run", "sum,slow", "--partition", DAY, "--run-id", "both", "--jobs", "2", "--json")
    running = home.start(*words)
    wait_until(lambda: home.states("both").get("sum") == ("waiting_approval", 1))
    home.ok("approve", "both", "sum", "--partition", DAY)
    assert not list((home.path / "runs").glob("*_both/processing_report.json"))
    (home.path / "decided").touch()
    code, out, err = running.wait(120)
    assert code == 0, (out, err)
    assert home.states("both") == {"sum": ("success", 1), "slow": ("success", 1)}
