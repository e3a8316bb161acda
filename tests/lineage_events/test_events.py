"""Events of runs, targets and steps: valid in every state, derived, and without values of rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

from tallyman.control.openlineage.events import (
    STATES,
    LineageAsset,
    LineageRun,
    asset_event,
    run_event,
    step_events,
)
from tallyman.control.openlineage.facets import RunState
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import KeyDigest, SubLedger
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.run import Status
from tallyman.errors import (
    JoinFanOut,
    RowsUnaccountedFor,
    RunCanceled,
    StepFailed,
    TooManyRejected,
)
from tests.lineage_events.described import (
    FOLDER,
    HASH,
    RUN,
    STARTED,
    clock,
    ledger,
    lineage_asset,
    lineage_run,
    manifest,
    partition,
    result,
)
from tests.lineage_events.validation import valid

BEGINS = (RunState.START, RunState.RUNNING)
FAILURES = {
    "halt": TooManyRejected(
        "daily_revenue", "AbsoluteCount", 660, 100, "660 of 9,000 records"
    ).facts(),
    "accounting": RowsUnaccountedFor("daily_revenue", 1, 0, 2).facts(),
    "crash in Spark": StepFailed(
        "daily_revenue", "[DIVIDE_BY_ZERO] the value 'SECRET-17' is not a number", 30
    ).facts(),
    "cancel": RunCanceled("r").facts(),
    "nothing is known": None,
}


def body(event: Any) -> dict[str, Any]:
    valid(dict(event.body))
    return dict(event.body)


def bare(name: str = "daily_revenue", status: Status = Status.RUNNING) -> LineageAsset:
    return LineageAsset(result=result(status, fates={}), folder=f"{FOLDER}/{name}")


def test_notes_of_an_asset_are_tags_of_its_job_without_secrets(tmp_path: Path) -> None:
    notes = {"owner": "finance", "db_password": "hunter2", "home": "https://u:p@wiki/x"}
    noted = replace(lineage_asset(tmp_path), meta=notes)
    told = body(asset_event(lineage_run(), noted, RunState.COMPLETE, STARTED))
    tags = {tag["key"]: tag["value"] for tag in told["job"]["facets"]["tags"]["tags"]}
    assert tags == {"owner": "finance", "db_password": "***", "home": "https://***@wiki/x"}
    bare = body(asset_event(lineage_run(), lineage_asset(tmp_path), RunState.COMPLETE, STARTED))
    assert "tags" not in bare["job"]["facets"]


@pytest.mark.parametrize("state", list(RunState))
def test_a_run_is_told_in_every_state(tmp_path: Path, state: RunState) -> None:
    run = lineage_run()
    known = [] if state in BEGINS else [lineage_asset(tmp_path)]
    told = body(run_event(run, state, STARTED, known))
    assert told["eventType"] == state.value
    assert told["eventTime"] == "2024-03-01T06:30:00.000123Z"
    assert told["run"]["runId"] == RUN
    assert (told["job"]["namespace"], told["job"]["name"]) == ("tallyman", "airline")
    assert told["job"]["facets"]["jobType"]["jobType"] == "RUN"
    assert told["producer"].startswith("urn:tallyman:")
    assert told["run"]["facets"]["tallyman_run"] == {
        "_producer": told["producer"],
        "_schemaURL": "urn:tallyman:facet:TallymanRunFacet:1-0-0",
        "run_id": RUN,
        "folder_name": "0301_063000_0c6a1d1e",
        "config_hash": HASH,
        "code_version": "35eefcf",
        "input_dataset": "data/bookings + data/reference/airlines.csv",
        "reproducibility_manifest": f"{FOLDER}/manifest.json",
        "git_branch": "main",
        "git_dirty": False,
        "source_hash": HASH,
        "input_hashes": {"segments": HASH},
        "inputs_total": 2,
    }


@pytest.mark.parametrize("state", list(RunState))
@pytest.mark.parametrize("known", ["little", "all"])
def test_a_target_is_told_in_every_state(tmp_path: Path, state: RunState, known: str) -> None:
    asset = bare() if known == "little" else lineage_asset(tmp_path)
    told = body(asset_event(lineage_run(), asset, state, STARTED))
    assert told["run"]["runId"] == str(uuid5(UUID(RUN), "daily_revenue||1"))
    parent = told["run"]["facets"]["parent"]
    assert parent["run"]["runId"] == RUN
    assert parent["job"] == {"namespace": "tallyman", "name": "airline", "facets": {}}
    assert told["job"]["name"] == "airline.daily_revenue"


@pytest.mark.parametrize("status", list(Status))
def test_every_status_but_pending_has_a_state(status: Status) -> None:
    assert (status in STATES) == (status is not Status.PENDING)


def test_a_finished_target_tells_its_balance_and_its_data(tmp_path: Path) -> None:
    told = body(asset_event(lineage_run(), lineage_asset(tmp_path), RunState.COMPLETE, STARTED))
    balance = told["run"]["facets"]["tallyman_ledger"]
    assert balance["records_in"] == 349_660 == sum(balance["fates"].values())
    assert balance["fates"] == {fate.value: n for fate, n in ledger().fates.items()}
    assert (balance["unaccounted"], balance["balanced"], balance["rejections"]) == (0, True, 726)
    assert balance["ledger_location"] == f"{FOLDER}/daily_revenue/ledger.json"
    (output,) = told["outputs"]
    assert (output["namespace"], output["name"]) == ("tallyman", "airline.daily_revenue")
    errors = output["facets"]["tallyman_errors"]
    assert errors["error_count"] == 660
    assert errors["error_rate"] == pytest.approx(0.0018875479)
    assert sum(errors["errors_by_type"].values()) == 726
    assert errors["dlq_location"] == f"{FOLDER}/daily_revenue/errors"
    segments, airlines = told["inputs"]
    assert (segments["namespace"], segments["name"]) == ("file", str(tmp_path / "data/bookings"))
    assert segments["inputFacets"]["dataQualityMetrics"]["rowCount"] == 349_660
    assert airlines["name"] == str(tmp_path / "data/reference/airlines.csv")
    assert airlines["inputFacets"]["dataQualityMetrics"]["bytes"] == 22
    assert "rowCount" not in airlines["inputFacets"]["dataQualityMetrics"]
    assert told["job"]["facets"]["sourceCode"]["language"] == "PYTHON"
    assert "def daily_revenue(" in told["job"]["facets"]["sourceCode"]["sourceCode"]
    assert "  -- 10_expect" in told["job"]["facets"]["sql"]["query"]


@pytest.mark.parametrize("error", FAILURES.values(), ids=list(FAILURES))
@pytest.mark.parametrize("state", [RunState.FAIL, RunState.ABORT])
def test_a_failure_is_told_without_values(
    tmp_path: Path, state: RunState, error: dict[str, object] | None
) -> None:
    asset = lineage_asset(tmp_path, result=result(Status.FAILED, error=error))
    for event in (
        asset_event(lineage_run(), asset, state, STARTED),
        run_event(lineage_run(), state, STARTED, [asset]),
        run_event(lineage_run(), state, STARTED, [], error),
    ):
        told = body(event)
        facets = told["run"]["facets"]
        assert facets["tallyman_failure"]["message"] == facets["errorMessage"]["message"]
        assert "SECRET-17" not in json.dumps(told)
        reason = (error or {}).get("reason") or (error or {"code": "interrupted"})["code"]
        assert facets["tallyman_failure"]["reason"] == reason


def test_what_spark_stumbled_over_is_told_by_its_kind(tmp_path: Path) -> None:
    asset = lineage_asset(tmp_path, result=result(Status.FAILED, error=FAILURES["crash in Spark"]))
    told = body(asset_event(lineage_run(), asset, RunState.FAIL, STARTED))
    message = told["run"]["facets"]["errorMessage"]["message"]
    assert message.startswith("daily_revenue: step_failed at step 30 [DIVIDE_BY_ZERO].")
    fanned = JoinFanOut("daily_revenue", "known_airline", "airlines", 3, ["KEY-1"]).facts()
    asset = lineage_asset(tmp_path, result=result(Status.FAILED, error=fanned))
    told = body(asset_event(lineage_run(), asset, RunState.FAIL, STARTED))
    assert "KEY-1" not in json.dumps(told)


def test_samples_of_rejections_are_not_told(tmp_path: Path) -> None:
    run, asset = lineage_run(), lineage_asset(tmp_path)
    times = clock()
    events = [asset_event(run, asset, RunState.COMPLETE, STARTED)]
    events += [run_event(run, RunState.COMPLETE, STARTED, [asset])]
    events += step_events(run, asset, lambda: next(times))
    assert "THE VALUE OF A ROW" in json.dumps(asset.rejections)
    assert all("THE VALUE OF A ROW" not in json.dumps(event.body) for event in events)


def test_each_step_tells_the_fates_it_gave(tmp_path: Path) -> None:
    run, asset = lineage_run(), lineage_asset(tmp_path)
    times = clock()
    events = [body(event) for event in step_events(run, asset, lambda: next(times))]
    own = uuid5(UUID(RUN), "daily_revenue||1")
    told = {}
    for event in events:
        step = event["job"]["name"].removeprefix("airline.daily_revenue.")
        assert event["eventType"] == "COMPLETE"
        assert event["run"]["runId"] == str(uuid5(own, step))
        parent = event["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == str(own)
        assert parent["root"]["run"]["runId"] == RUN
        facet = event["run"]["facets"]["tallyman_ledger"]
        told[step] = ({k: n for k, n in facet["fates"].items() if n}, facet["rejections"])
        assert "sql" in event["job"]["facets"]
    assert told == {
        "10_expect": ({}, 198),
        "20_expect": ({}, 0),
        "flown_status_filter": ({"FILTERED": 4_000}, 0),
        "known_airline": ({}, 132),
        "daily_revenue_aggregation": ({"AGGREGATED": 345_000}, 0),
    }
    assert len({event["eventTime"] for event in events}) == len(events)


def test_steps_of_inputs_that_flow_in_and_of_rows_made_are_told() -> None:
    """A step that gave a fate to records and to groups is numbered at the second."""
    plan = Frame("a").groupBy("k").agg(n="count(*)").append(Frame("b").filter("x > 1", name="kept"))
    sub = SubLedger(
        opened_by="10_groupBy",
        unit="group",
        units=KeyDigest(5),
        partitions=(partition(Fate.FILTERED, 2, "adjoint/filtered_keys/kept_2.parquet"),),
    )
    asset = LineageAsset(
        result=result(),
        folder=f"{FOLDER}/x",
        plan=plan,
        ledger=replace(StoredLedger.of(ledger()), sub_ledgers=(sub,)),
    )
    times = clock()
    told = {}
    for event in step_events(lineage_run(), asset, lambda: next(times)):
        found = body(event)
        told[found["job"]["name"].rpartition(".")[2]] = found["run"]["facets"]["tallyman_ledger"]
    assert list(told) == ["10_groupBy", "kept", "20_append"]
    assert told["kept"]["rows"] == {"FILTERED": 2}
    assert told["kept"]["fates"]["FILTERED"] == 0


def test_the_same_told_twice_is_the_same_event(tmp_path: Path) -> None:
    run = lineage_run()
    one = asset_event(run, lineage_asset(tmp_path), RunState.COMPLETE, STARTED)
    two = asset_event(run, lineage_asset(tmp_path), RunState.COMPLETE, STARTED)
    assert (one.key, one.body) == (two.key, two.body)
    again = asset_event(
        run, lineage_asset(tmp_path, result=result(attempt=2)), RunState.START, STARTED
    )
    assert again.run != one.run


def test_an_event_tells_only_some_of_ten_thousand_inputs() -> None:
    whole = {"kind": "source", "path": "rates.csv", "hash": HASH}
    parts = {
        f"sales[d:{n:05d}]": {"kind": "source", "path": "in/{partition}.csv", "hash": HASH}
        for n in range(10_000)
    }
    made = {"kind": "asset", "version": 3, "hash": HASH}
    bound = manifest()["cryptographic_binding"]
    inputs = {"sales": whole, "rates": whole, "costs[d:00007]": made, **parts}
    run = lineage_run(cryptographic_binding={**bound, "input_hashes": inputs})
    for state in (RunState.START, RunState.COMPLETE):
        event = body(run_event(run, state, STARTED))
        told = event["run"]["facets"]["tallyman_run"]
        assert told["inputs_total"] == 10_003
        assert list(told["input_hashes"]) == list(inputs)[:100]
        assert told["input_dataset"] == "rates.csv + costs[d:00007] + in/{partition}.csv"
        assert len(json.dumps(event)) < 20_000
    reads = ["sales[d:09999]", "rates", "made_by_the_run[d:09999]"]
    one = replace(bare(), result=result(partition="x", fates={}), reads=reads)
    event = body(asset_event(run, one, RunState.COMPLETE, STARTED))
    told = event["run"]["facets"]["tallyman_run"]
    assert told["input_hashes"] == {"sales[d:09999]": HASH, "rates": HASH}
    assert told["input_dataset"] == "in/{partition}.csv + rates.csv"
    assert told["inputs_total"] == 2
    assert len(json.dumps(event)) < 5_000


def test_a_run_tells_each_dataset_once_and_what_it_makes_itself_not_as_input(
    tmp_path: Path,
) -> None:
    run = lineage_run()
    one = lineage_asset(tmp_path, result=result(partition="d:2024-01-01"), folder=f"{FOLDER}/d/a=1")
    two = lineage_asset(tmp_path, result=result(partition="d:2024-01-02"), folder=f"{FOLDER}/d/a=2")
    assert one.output is not None
    reader = LineageAsset(
        result=result(partition=None, fates=dict.fromkeys(Fate, 0)),
        folder=f"{FOLDER}/e",
        inputs=[one.output],
        output=run.dataset("e", "e"),
    )
    told = body(run_event(run, RunState.COMPLETE, STARTED, [one, two, reader]))
    assert [d["name"] for d in told["inputs"]] == [d.name for d in one.inputs]
    assert [d["name"] for d in told["outputs"]] == ["airline.daily_revenue", "airline.e"]
    errors = told["outputs"][0]["facets"]["tallyman_errors"]
    assert errors["error_count"] == 1_320
    assert errors["dlq_location"] == f"{FOLDER}/d"
    assert told["run"]["facets"]["tallyman_ledger"]["records_in"] == 2 * 349_660
    # Both partitions were said to lie in the same files here: they count once.
    assert told["outputs"][0]["outputFacets"]["outputStatistics"]["fileCount"] == 2


def test_the_namespace_is_the_environments(tmp_path: Path) -> None:
    run = LineageRun(manifest=lineage_run().manifest, namespace="prod")
    told = body(run_event(run, RunState.START, STARTED))
    assert told["job"]["namespace"] == "prod"
    assert run.dataset("x", "x").namespace == "prod"


def test_what_output_steps_register_is_told_too(tmp_path: Path) -> None:
    plan = Frame("segments").output("x", register_as="copy", columns=["segment_id", "_row_id"])
    asset = lineage_asset(
        tmp_path, plan=plan, registered={"copy": lineage_run().dataset("copy", "copy")}
    )
    told = body(asset_event(lineage_run(), asset, RunState.COMPLETE, STARTED))
    assert [one["name"] for one in told["outputs"]] == ["airline.daily_revenue", "airline.copy"]
    lineage = told["outputs"][1]["facets"]["columnLineage"]["fields"]
    assert list(lineage) == ["segment_id"]
