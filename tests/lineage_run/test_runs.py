"""However a run ends, lineage tools can read it: every event is one by the published schemas."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from tallyman.control.conclude import close, ended
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.version.owner import Owner
from tallyman.project import Project
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tests.dispositions import at_a_terminal, ignores, in_the_background
from tests.lineage_run.conftest import ENDS, Told, parent
from tests.planting import BUG
from tests.world.home import kill
from tests.world.numbers import PIPELINE, NumbersHome
from tests.world.waiting import wait_until

DAY = "2025-01-01"
ENDED = {"duration_ms": 1, "attempt": 1}
SLOW = PIPELINE.replace('"n * 2"', '"slept(n, 5) * 2"')
CHECKED = PIPELINE.replace('"n * 2")', '"n * 2").expect("small", "n < 6")')
UNBALANCED = PIPELINE.replace("return raw", f'return raw.select("*", name="{BUG}")')
ASKING = PIPELINE.replace('(key="id", ', '(key="id", approval=tm.approval("look"), ', 1)


def run(home: NumbersHome, name: str, *words: str, assets: str = "numbers", **more: str) -> Told:
    """One asset is enough to tell how a run ends, unless others have to wait for it."""
    home.tallyman("run", assets, "--partition", DAY, "--run-id", name, *words, **more)
    return Told.by(home, name)


@pytest.fixture(scope="module")
def good(new_home: Callable[[], NumbersHome]) -> tuple[NumbersHome, Told]:
    home = new_home().numbers(DAY, 1, 2, 3, 4, 5)
    return home, run(home, "good", assets="+sum")


def test_a_run_that_succeeds(good: tuple[NumbersHome, Told]) -> None:
    _, told = good
    assert told.files == ["job_events.jsonl", "run_complete.json", "run_start.json"]
    first, *_, last = told.events
    assert told.file("start") == first
    assert told.file("complete") == last
    assert told.words("scenario") == ["START", "COMPLETE"]
    assert told.words("scenario.numbers") == ["START", "COMPLETE"]
    manifest = json.loads((told.folder / "manifest.json").read_text())
    assert first["run"]["runId"] == last["run"]["runId"] == manifest["openlineage_run_id"]
    bound = first["run"]["facets"]["tallyman_run"]
    assert bound["config_hash"] == manifest["cryptographic_binding"]["config_hash"]
    assert {"sourceCode", "sql"} <= set(first["job"]["facets"])
    window = first["run"]["facets"]["nominalTime"]
    assert window["nominalStartTime"] == "2025-01-01T00:00:00Z"
    assert window["nominalEndTime"] == "2025-01-02T00:00:00Z"
    times = [event["eventTime"] for event in told.events]
    assert times == sorted(set(times))


def test_counts_are_those_of_the_ledgers(good: tuple[NumbersHome, Told]) -> None:
    _, told = good
    for asset in ("numbers", "doubled", "sum"):
        end = told.of(f"scenario.{asset}")[-1]
        place = told.folder / asset / f"day={DAY}"
        ledger = json.loads((place / "ledger.json").read_text())
        door = ledger["input_accounting"]["total_records"]
        [read] = end["inputs"]
        assert read["inputFacets"]["dataQualityMetrics"]["rowCount"] == door
        [made] = end["outputs"]
        facet = end["run"]["facets"]["tallyman_ledger"]
        assert (facet["records_in"], facet["unaccounted"], facet["balanced"]) == (door, 0, True)
        assert sum(facet["fates"].values()) == door
        assert made["facets"]["tallyman_errors"]["error_count"] == facet["fates"]["ERROR"]
        assert made["outputFacets"]["outputStatistics"]["fileCount"] >= 1
    [total] = told.file("complete")["outputs"][-1:]
    assert total["facets"]["version"]["datasetVersion"] == "1"
    [column] = total["facets"]["columnLineage"]["fields"]["total"]["inputFields"]
    assert (column["name"], column["field"]) == ("scenario.doubled", "n")


def test_every_run_begins_once_and_ends_once_and_knows_its_parent(
    good: tuple[NumbersHome, Told],
) -> None:
    _, told = good
    own = told.file("start")["run"]["runId"]
    assets = {e["run"]["runId"] for e in told.events if e["job"]["name"].count(".") == 1}
    assert len(assets) == 3
    for event in told.events:
        depth = event["job"]["name"].count(".")
        assert depth == 0 or parent(event) in ({own} if depth == 1 else assets)
    for counts in told.starts_and_ends().values():
        assert counts["START"] <= 1
        assert sum(counts[end] for end in ENDS) == 1


def test_a_run_that_is_halted_by_a_threshold(home: NumbersHome) -> None:
    home.pipeline(CHECKED)
    told = run(home, "halted", "--thresholds", "absolute=1,percentage=0", assets="+sum")
    assert told.words("scenario") == ["START", "FAIL"]
    assert told.files == ["job_events.jsonl", "run_fail.json", "run_start.json"]
    facets = told.file("fail")["run"]["facets"]
    failure = facets["tallyman_failure"]
    shown = (failure["reason"], failure["errorCount"], failure["threshold"])
    assert shown == ("AbsoluteCount", 3, 1)
    assert "3" in facets["errorMessage"]["message"]
    assert told.words("scenario.doubled")[-1] == "FAIL"
    assert told.words("scenario.sum") == []  # it never began


def test_a_run_whose_keys_do_not_balance(home: NumbersHome) -> None:
    home.pipeline(UNBALANCED)
    told = run(home, "unbalanced")
    assert told.words("scenario") == ["START", "FAIL"]
    facets = told.file("fail")["run"]["facets"]
    assert facets["tallyman_failure"]["reason"] == "ACCOUNTING_INVARIANT_VIOLATED"
    assert facets["tallyman_failure"]["errorCount"] > 0
    assert facets["tallyman_ledger"]["balanced"] is False


def test_a_run_whose_input_is_missing_tells_that_the_target_began_and_failed(
    good: tuple[NumbersHome, Told],
) -> None:
    home, _ = good  # the definitions are known: no Spark is needed
    day = "2025-01-09"
    home.tallyman("run", "+sum", "--partition", day, "--run-id", "missing")
    told = Told.by(home, "missing")
    assert told.words("scenario.numbers") == ["START", "FAIL"]
    assert told.words("scenario") == ["START", "FAIL"]
    assert told.file("fail")["run"]["facets"]["tallyman_failure"]["reason"] == "input_missing"


def test_a_run_that_is_killed_is_told_of_by_whoever_finds_it_and_goes_on(home: NumbersHome) -> None:
    told = run(home, "killed", TALLYMAN_CRASH_AT="segment_written")
    assert told.words("scenario") == ["START"]
    assert [r["status"] for r in home.ok("runs")] == ["interrupted"]
    told = Told.by(home, "killed")
    assert told.words("scenario.numbers") == ["START", "ABORT"]
    assert told.words("scenario") == ["START", "ABORT"]
    assert "its process died" in told.file("fail")["run"]["facets"]["errorMessage"]["message"]
    assert home.ok("resume", "killed")["status"] == "success"
    told = Told.by(home, "killed")
    assert told.words("scenario") == ["START", "ABORT", "RUNNING", "COMPLETE"]
    assert told.files == ["job_events.jsonl", "run_complete.json", "run_start.json"]
    assert (told.folder / "attempts" / "1" / "lineage" / "run_fail.json").exists()
    assert home.ok("verify", "killed")["balanced"]


def test_a_run_that_is_killed_before_anybody_was_told_begins_when_it_is_resumed(
    home: NumbersHome,
) -> None:
    home.tallyman(
        "run", "numbers", "--partition", DAY, "--run-id", "early", TALLYMAN_CRASH_AT="folder_made"
    )
    home.ok("runs")
    assert home.ok("lineage", "status")["waiting"] == 0
    assert home.ok("resume", "early")["status"] == "success"
    assert Told.by(home, "early").words("scenario") == ["START", "COMPLETE"]


def test_a_run_that_is_canceled(home: NumbersHome) -> None:
    home.pipeline(SLOW)
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "slow", "--json")
    wait_until(lambda: list((home.path / "runs").glob("*_slow/.staging/*/doubled/*")))
    assert home.ok("cancel", "slow")["status"] == "canceled"
    running.wait(60)
    told = Told.by(home, "slow")
    assert told.words("scenario") == ["START", "ABORT"]
    assert told.words("scenario.doubled") == ["START", "ABORT"]
    assert told.words("scenario.numbers")[-1] == "COMPLETE"


def test_a_run_that_waits_has_not_ended_until_somebody_decides(home: NumbersHome) -> None:
    home.pipeline(ASKING)
    told = run(home, "asking")
    assert told.words("scenario") == ["START"]
    assert told.words("scenario.numbers")[-1] == "COMPLETE"
    home.ok("approve", "asking", "numbers", "--partition", DAY)
    told = Told.by(home, "asking")
    assert told.words("scenario") == ["START", "COMPLETE"]
    assert home.ok("verify", "asking")["balanced"]


@pytest.mark.parametrize(
    ("place", "stop"), [(at_a_terminal, signal.SIGINT), (in_the_background, signal.SIGTERM)]
)
def test_a_run_that_is_interrupted_at_the_terminal_or_in_the_background(
    home: NumbersHome, place: Callable[[], AbstractContextManager[None]], stop: signal.Signals
) -> None:
    home.pipeline(SLOW)
    with place():
        words = ("run", "+sum", "--partition", DAY, "--run-id", "stopped", "--json")
        running = home.installed(*words)
    try:
        wait_until(lambda: list((home.path / "runs").glob("*_stopped/.staging/*/doubled/*")))
        assert ignores(running.pid, signal.SIGINT) is (place is in_the_background)
        os.kill(running.pid, stop)
        _, said = running.communicate(timeout=60)
    finally:
        kill(running)
    assert running.returncode == 130
    assert "tallyman resume stopped" in said
    told = Told.by(home, "stopped")
    assert told.words("scenario") == ["START", "ABORT"]
    for counts in told.starts_and_ends().values():
        assert sum(counts[end] for end in ENDS) == 1  # whatever was at work ended with it
    assert [r["status"] for r in home.ok("runs")] == ["canceled"]


def test_a_target_that_ends_while_its_run_is_taken_away_ends_once(home: NumbersHome) -> None:
    told = run(home, "taken", TALLYMAN_CRASH_AT="asset_started")
    with Project.open(home.path) as project, ThreadPoolExecutor(1) as pool:
        with project.database.transaction() as tx:
            [record] = Runs(tx).list(Owner("default", "scenario"), limit=1)
            assert record.executor is not None
            Runs(tx).hold(record.id, record.executor)
            [at_work] = [r for r in Materializations(tx).of_run(record.id) if r.status == "running"]
            Materializations(tx).end(record.id, at_work.target, Status.FAILED, "of itself", ENDED)
            taken = pool.submit(_released, project, record)
            with pytest.raises(TimeoutError):
                taken.result(timeout=1)
        ends = [event.job for event in taken.result(timeout=30)]
    assert told.words("scenario.numbers") == ["START"]
    assert ends == ["scenario"]


def _released(project: Project, record: RunRecord) -> list[LineageEvent]:
    with project.database.transaction() as tx:
        return ended.release(tx, project.settings.home, record, "its process is gone").events


def test_an_interrupt_after_the_end_changes_nothing(
    home: NumbersHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(close, "place", interrupted)
    with Project.open(home.path) as project, pytest.raises(KeyboardInterrupt):
        project.run("numbers", partition=DAY, run_id="late")
    assert [r["status"] for r in home.ok("runs")] == ["success"]
    assert Told.by(home, "late").words("scenario") == ["START", "COMPLETE"]
    assert home.ok("verify", "late")["verified"]
    canceled = home.sql("SELECT count(*) FROM audit_log WHERE event_type = 'run.canceled'")
    assert canceled == [["0"]]


def test_a_text_that_no_database_holds_is_told_in_another_form(home: NumbersHome) -> None:
    home.pipeline(PIPELINE.replace("return raw", "return raw.filter(\"id <> 'a\\0b'\")"))
    told = run(home, "odd")
    assert told.words("scenario") == ["START", "COMPLETE"]
    [end] = [e for e in told.of("scenario.numbers") if e["eventType"] == "COMPLETE"]
    assert "a\\x00b" in end["job"]["facets"]["sql"]["query"]


def test_several_decisions_are_one_end(home: NumbersHome) -> None:
    home.pipeline(ASKING).numbers("2025-01-02", 7)
    days = ("--from", DAY, "--to", "2025-01-02")
    home.tallyman("backfill", "numbers", *days)
    [run_id] = [r["run_id"] for r in home.ok("runs")]
    for day, word in ((DAY, "reject"), ("2025-01-02", "approve")):
        home.ok(word, run_id, "numbers", "--partition", day, "--reason", "seen")
    told = Told.by(home, run_id[:8])
    assert told.words("scenario") == ["START", "FAIL"]
    assert home.ok("verify", run_id)["sealed"]
    assert not home.tallyman("verify", run_id).json["changed_files"]


def test_a_decision_whose_process_dies_is_told_and_sealed_by_the_next_command(
    home: NumbersHome,
) -> None:
    home.pipeline(ASKING)
    run(home, "asking")
    home.tallyman(
        "approve", "asking", "numbers", "--partition", DAY, TALLYMAN_CRASH_AT="report_written"
    )
    assert [r["status"] for r in home.ok("runs")] == ["success"]
    assert Told.by(home, "asking").words("scenario") == ["START", "COMPLETE"]
    assert home.ok("verify", "asking")["verified"]
    assert home.ok("verify", "chain")["intact"]


def test_what_is_unchanged_is_not_told_again(good: tuple[NumbersHome, Told]) -> None:
    home, _ = good
    told = run(home, "second", assets="+sum")
    assert [event["job"]["name"] for event in told.events] == ["scenario", "scenario"]
    assert told.words("scenario") == ["START", "COMPLETE"]
