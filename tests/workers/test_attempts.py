"""Attempts at targets: what a report may change, and what becomes of it when things go wrong."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tallyman import faults
from tallyman.control.dispatch import operate
from tallyman.control.dispatch.claim import Claimed, claim
from tallyman.control.target.package import MadeTarget, TargetPackage
from tallyman.control.tasks import run_tasks, target_tasks
from tallyman.domain.history.materialization import Made
from tallyman.domain.pipeline.target import Target
from tallyman.domain.task.fence import Fence, ReportStatus
from tallyman.domain.task.task import TARGET, NewTask, TaskTemplate, TriggerKind
from tallyman.domain.version.dataset import DataFile
from tallyman.errors import CallRefused, DatabaseUnavailable, RunClosing, RunEnded, UsageError
from tallyman.faults import Point
from tallyman.registry.database import Database
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.worker_tokens import WorkerTokens
from tallyman.server.dispatcher import Dispatcher
from tallyman.settings import Secret
from tallyman.worker import target
from tallyman.worker.child import Channel
from tallyman.worker.client import ServerClient
from tests.dispatch import processes
from tests.workers.bench import Bench
from tests.workers.conftest import DAY
from tests.workers.service import Service
from tests.world.waiting import wait_until

KEY = f"d:{DAY}"
NEXT_DAY = "2025-01-02"


def made_of(made: MadeTarget, **changes: Any) -> MadeTarget:
    """The outcome with another result."""
    found = made.outcome.made
    assert found is not None
    return replace(made, outcome=replace(made.outcome, made=replace(found, **changes)))


def result_in(made: MadeTarget) -> Made:
    found = made.outcome.made
    assert found is not None
    return found


# ---- the pipeline version ------------------------------------------------------------------------


def test_another_attempt_is_made_by_the_version_that_is_active_then(
    new_bench: Callable[[], Bench],
) -> None:
    bench = new_bench()
    task = bench.stale("doubled", KEY)
    fence, made = bench.attempt(task)
    bench.home.edit("n * 2", "n * 3").ok("run", "doubled", "--partition", DAY)
    assert not bench.complete(fence, made).duplicate
    assert (bench.status(task), (bench.task(task).error or {})["code"]) == ("Failed", "conflict")
    bench.requeue()
    bench.complete(*bench.attempt(task))
    assert bench.status(task) == "Completed"
    assert bench.tasks.close_runs() == 1
    assert [row[1] for row in bench.home.rows("doubled")] == [3, 6, 9]
    [(active,)] = bench.home.query("SELECT active_version FROM pipelines")
    run = bench.home.query(
        "SELECT params ->> 'pipeline_version', params -> 'meta' ->> 'task' FROM runs WHERE id = %s",
        bench.task(task).run_id,
    )
    assert run == [(active, str(task))]
    assert bench.task(task).pipeline_version == active
    bench.home.ok("verify", "run", str(bench.task(task).run_id))


def test_what_an_earlier_version_made_is_not_published_over_the_active_one(
    new_bench: Callable[[], Bench],
) -> None:
    bench = new_bench()
    task = bench.stale("doubled", KEY)
    fence, made = bench.attempt(task)
    home = bench.home.numbers(NEXT_DAY, 5).edit("n * 2", "n * 3")
    home.ok("run", "numbers", "--partition", NEXT_DAY)  # does not touch the partition of the task
    before = home.heads()
    bench.complete(fence, made)
    error = bench.task(task).error or {}
    assert (bench.status(task), error["code"]) == ("Failed", "pipeline_moved")
    assert bench.task(task).next_retry_at is not None
    assert home.heads() == before
    bench.requeue()
    bench.complete(*bench.attempt(task))
    assert [row[1] for row in home.rows("doubled")] == [3, 6, 9]


def test_a_task_whose_trigger_is_gone_is_canceled_when_it_is_assigned(
    new_bench: Callable[[], Bench],
) -> None:
    bench = new_bench()
    task = bench.stale("doubled", KEY)
    fence = bench.claim(task)
    home = bench.home.edit(', trigger="event"', "").edit("n * 2", "n * 3")
    home.ok("run", "doubled", "--partition", DAY)
    assert bench.tasks.assign(bench.owner, fence) is None
    error = bench.task(task).error or {}
    assert (bench.status(task), error["code"]) == ("Canceled", "trigger_gone")


# ---- an outcome is bound to its assignment -------------------------------------------------------


def test_the_answer_to_a_claim_says_what_to_read_and_where_to_write(bench: Bench) -> None:
    task = bench.stale("doubled", KEY)
    [(current,)] = bench.home.query("SELECT ordinal FROM datasets WHERE name = 'doubled'")
    server = Dispatcher(bench.database, bench.tasks)
    with bench.database.transaction() as tx:
        found = claim(tx, bench.owner, task, "w")
    assert isinstance(found, Claimed)
    answer = server.answer(bench.owner, found)
    [read], [made] = answer["task"]["inputs"], answer["task"]["outputs"]
    assert (read["name"], read["version"]) == ("numbers", 1)
    assert [Path(file).exists() for file in read["files"]] == [True]
    package = TargetPackage.of_json(answer["task"]["package"])
    opened = package.assignment.opened["doubled"]
    assert made["write_prefix"].endswith(f"{made['dataset_uuid']}/version/{opened}/")
    assert (made["expected_version"], made["update_strategy"]) == (current, "replace")
    with bench.database.transaction() as tx:
        now = Tasks(tx).get(task, bench.owner)
        fetched = now.payload(None, Tasks(tx).pins(now))
    assert fetched["run_id"] is not None
    assert {**fetched, **answer["task"]} == answer["task"]
    with bench.database.transaction() as tx:
        operate.cancel(tx, bench.owner, task)
    bench.report(found.fence, None, ReportStatus.CANCELED)
    assert server.answer(bench.owner, found) == {"status": "NotClaimed", "reason": "Canceled"}
    server.stop()


def fragments(bench: Bench) -> list[tuple[object, ...]]:
    return bench.home.query(
        "SELECT id, dataset_id, digest, files::text FROM fragments WHERE staged_at IS NOT NULL "
        "ORDER BY id"
    )


def with_a_fragment_of_another_asset(bench: Bench, made: MadeTarget) -> MadeTarget:
    [(victim, dataset)] = bench.home.query(
        "SELECT f.id, f.dataset_id FROM fragments f JOIN datasets d ON d.id = f.dataset_id "
        "WHERE d.name = 'numbers' AND f.staged_at IS NOT NULL LIMIT 1"
    )
    found = result_in(made)
    place = bench.workspace.warehouse.dataset(UUID(str(dataset))) / "version" / str(victim)
    [file] = place.glob("*.parquet")
    forged = replace(
        found.fragment,
        id=UUID(str(victim)),
        dataset_id=UUID(str(dataset)),
        digest="forged",
        iceberg_manifest=None,
        files=(_described(file, f"version/{victim}/{file.name}"),),
    )
    registered = (*found.registered, forged)
    metadata = {**found.metadata, "registered": [str(victim)]}
    return made_of(made, registered=registered, metadata=metadata)


def _described(file: Path, name: str) -> DataFile:
    return DataFile(name, "0" * 64, file.stat().st_size, 3)


def with_another_path(path: str) -> Callable[[Bench, MadeTarget], MadeTarget]:
    def change(bench: Bench, made: MadeTarget) -> MadeTarget:
        whole = result_in(made).fragment
        named = path.format(home=bench.home.path, fragment=whole.id)
        files = tuple(replace(file, path=named) for file in whole.files)
        return made_of(made, fragment=replace(whole, files=files))

    return change


def with_the_target(target: Target) -> Callable[[Bench, MadeTarget], MadeTarget]:
    return lambda _, made: replace(made, outcome=replace(made.outcome, target=target))


def of_attempt(attempt: Any) -> Callable[[Bench, MadeTarget], MadeTarget]:
    def change(_: Bench, made: MadeTarget) -> MadeTarget:
        outcome = made.outcome
        return replace(
            made, outcome=replace(outcome, result=replace(outcome.result, attempt=attempt))
        )

    return change


def listing_a_published_fragment(bench: Bench, made: MadeTarget) -> MadeTarget:
    published = str(fragments(bench)[0][0])
    return made_of(made, metadata={**result_in(made).metadata, "registered": [published]})


def reusing_another_result(bench: Bench, made: MadeTarget) -> MadeTarget:
    [(other,)] = bench.home.query(
        "SELECT id FROM materializations WHERE asset_name = 'numbers' AND status = 'success' "
        "LIMIT 1"
    )
    outcome = replace(made.outcome, made=None, reused=UUID(str(other)))
    return replace(made, outcome=outcome)


@pytest.mark.parametrize(
    "forge",
    [
        with_a_fragment_of_another_asset,
        with_another_path("{home}/data/2025-01-01/raw.jsonl"),
        with_another_path("version/{fragment}/../../../raw.parquet"),
        with_the_target(Target("numbers", KEY)),
        of_attempt("../../1"),
        listing_a_published_fragment,
        reusing_another_result,
    ],
)
def test_an_outcome_that_was_not_assigned_changes_nothing(
    bench: Bench, forge: Callable[[Bench, MadeTarget], MadeTarget]
) -> None:
    task = bench.stale("doubled", KEY, attempts=1)
    fence, made = bench.attempt(task)
    before, heads = fragments(bench), bench.home.heads()
    bench.complete(fence, forge(bench, made))
    error = bench.task(task).error or {}
    assert bench.status(task) == "Failed"
    assert error["code"] in ("outcome_unfit", "fragment_gone"), error
    assert (fragments(bench), bench.home.heads()) == (before, heads)


def test_a_report_that_does_not_fit_its_outcome_is_refused(bench: Bench) -> None:
    task = bench.stale("doubled", KEY)
    fence, made = bench.attempt(task)
    lost = replace(made, outcome=replace(made.outcome, made=None))
    reports: list[tuple[MadeTarget | None, ReportStatus]] = [
        (None, ReportStatus.COMPLETED),
        (None, ReportStatus.WAITING),
        (made, ReportStatus.WAITING),
        (made, ReportStatus.FAILED),
        (lost, ReportStatus.COMPLETED),
    ]
    for given, status in reports:
        with pytest.raises(UsageError, match="makes a target"):
            bench.report(fence, given, status)
    assert bench.status(task) == "Running"
    assert bench.complete(fence, made).status.value == "Completed"


@pytest.fixture
def serving(bench: Bench) -> Iterator[Service]:
    service = Service(bench.home)
    yield service
    service.stop()


@contextmanager
def calling(bench: Bench, address: str, fence: Fence) -> Iterator[Callable[[Any], Any]]:
    """complete(made): report that the attempt is completed, over HTTP."""
    with bench.database.transaction() as tx:
        token = WorkerTokens(tx).add(bench.owner, f"w-{uuid4()}")
    client = ServerClient(address, Secret(token))
    body = {
        "task_id": str(fence.task),
        "attempt": fence.attempt,
        "lease_token": str(fence.lease_token),
        "status": "Completed",
    }
    try:
        yield lambda made: client.post("/internal/task-complete", {**body, "made": made})
    finally:
        client.close()


def test_a_server_without_a_project_completes_no_target(bench: Bench, tmp_path: Path) -> None:
    task = bench.stale("doubled", KEY)
    fence, made = bench.attempt(task)
    server = processes.server(bench.database.url(), tmp_path)
    try:
        with calling(bench, server.first, fence) as complete:
            for given in (None, made.to_json()):
                with pytest.raises(CallRefused) as refused:
                    complete(given)
                assert (refused.value.status, refused.value.problem) == (422, "usage_error")
    finally:
        server.kill()
    assert bench.status(task) == "Running"


def test_what_the_database_cannot_store_is_replaced_or_refused(
    bench: Bench, serving: Service
) -> None:
    task = bench.stale("doubled", KEY)
    fence, made = bench.attempt(task)
    known = result_in(made).metadata
    too_large = made_of(made, metadata={**known, "duration_ms": 2**80}).to_json()
    odd = made_of(made, metadata={**known, "meta": {"nul \x00": "and \udc80"}}).to_json()
    serving.server()
    with calling(bench, serving.address, fence) as complete:
        for wrong in (too_large, {"outcome": "text"}, {"outcome": {"target": 7}}):
            with pytest.raises(CallRefused) as refused:
                complete(wrong)
            assert (refused.value.status, bench.status(task)) == (422, "Running")
        assert complete(odd)["status"] == "Completed"


# ---- reports that meet trouble -------------------------------------------------------------------


def test_an_attempt_that_cannot_be_published_ends_with_the_reason(
    new_bench: Callable[[], Bench],
) -> None:
    bench = new_bench()
    home = bench.home.numbers(NEXT_DAY, 5)
    home.edit('return numbers.withColumn("n", "n * 2")', 'return numbers.withColumn("m", "n * 2")')
    home.ok("run", "numbers", "--partition", NEXT_DAY)
    task = bench.stale("doubled", f"d:{NEXT_DAY}")
    reported = bench.complete(*bench.attempt(task))
    assert (reported.status.value, reported.again) == ("Failed", False)
    assert (bench.task(task).error or {})["code"] == "schema_changed"
    assert bench.tasks.close_runs() == 1
    assert bench.run_of(task)[0] == "failed"


def test_a_report_is_repeated_after_its_transaction_was_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bench.stale("doubled", KEY, attempts=1)
    fence, made = bench.attempt(task)
    monkeypatch.setattr(target_tasks, "PATIENCE_S", 0.0)

    def lose(point: Point) -> None:
        """End all connections while the versions are written: files are in their place then."""
        if point is Point.METADATA_WRITTEN:
            end_connections(bench.database)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "reach", lose)
        with pytest.raises(DatabaseUnavailable):
            bench.complete(fence, made)
    assert bench.status(task) == "Running"
    assert bench.complete(fence, made).status.value == "Completed"
    assert bench.tasks.close_runs() == 1
    assert bench.run_of(task)[0] == "success"
    bench.home.ok("verify", "run", str(bench.task(task).run_id))


def end_connections(database: Database) -> None:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_late_completion_goes_on_with_a_run_that_has_ended(bench: Bench) -> None:
    task = bench.stale("doubled", KEY, attempts=1)
    fence, made = bench.attempt(task)
    bench.give_up(task)
    assert bench.tasks.close_runs() == 1
    assert (bench.status(task), bench.run_of(task)[0]) == ("Failed", "failed")
    before = bench.home.heads()["doubled"]
    reported = bench.complete(fence, made)
    assert (reported.status.value, reported.duplicate) == ("Completed", False)
    assert bench.home.heads()["doubled"] == before + 1
    assert bench.tasks.close_runs() == 1
    assert bench.run_of(task)[0] == "success"
    assert bench.report_of(task)["status"] == "success"
    assert not list((bench.home.path / bench.run_of(task)[1]).glob(".staging/*"))
    bench.home.ok("verify", "run", str(bench.task(task).run_id))
    assert bench.complete(fence, made).duplicate


def test_a_late_completion_of_a_removed_run_is_refused(bench: Bench) -> None:
    task = bench.stale("doubled", KEY, attempts=1)
    fence, made = bench.attempt(task)
    bench.give_up(task)
    assert bench.tasks.close_runs() == 1
    run = bench.task(task).run_id
    bench.home.owner(f"UPDATE runs SET removed_at = now(), removed_by = 'x' WHERE id = '{run}'")
    with pytest.raises(RunEnded):
        bench.complete(fence, made)
    with bench.database.transaction() as tx:
        operate.retry(tx, bench.owner, task)
    assert bench.tasks.assign(bench.owner, bench.claim(task)) is None
    error = bench.task(task).error or {}
    assert (bench.status(task), error["code"]) == ("Failed", "run_ended")
    assert "removed" in str(error["message"])


def test_a_report_waits_while_its_run_is_being_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = bench.stale("doubled", KEY, attempts=1)
    fence, made = bench.attempt(task)
    bench.give_up(task)
    met: list[Exception] = []

    def report(point: Point) -> None:
        if point is Point.REPORT_WRITTEN and not met:
            with pytest.raises(RunClosing) as found:
                bench.complete(fence, made)
            met.append(found.value)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "reach", report)
        assert bench.tasks.close_runs() == 1
    assert (len(met), bench.run_of(task)[0], bench.status(task)) == (1, "failed", "Failed")
    assert bench.complete(fence, made).status.value == "Completed"
    assert bench.tasks.close_runs() == 1
    assert (bench.run_of(task)[0], bench.report_of(task)["status"]) == ("success", "success")


def test_runs_that_cannot_be_closed_do_not_keep_others_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_tasks, "BATCH", 2)
    task = bench.stale("doubled", KEY, attempts=1)
    fence = bench.claim(task)
    bench.assign(fence)
    for _ in range(3):
        add_run(bench, project="elsewhere")
    bench.report(fence, None, ReportStatus.FAILED)
    closed = [bench.tasks.close_runs() for _ in range(3)]
    bench.home.owner("DELETE FROM runs WHERE project = 'elsewhere'")
    assert sum(closed) == 1
    assert bench.run_of(task)[0] == "failed"


def add_run(bench: Bench, project: str | None = None) -> UUID:
    """Add a run of tasks without any, older than all others."""
    run = uuid4()
    bench.home.sql(
        "INSERT INTO runs (id, name, org, project, params, pins, folder, actor, executor, "
        f"executor_node, started_at, status) SELECT '{run}', '{run}', org, "
        f"'{project or bench.owner.project}', params, '{{}}', 'runs/none', 'x', '{run}', 'tasks', "
        "started_at - interval '1 day', 'running' FROM runs LIMIT 1"
    )
    return run


def test_events_of_a_completed_task_name_it_as_their_producer(bench: Bench) -> None:
    task = bench.stale("doubled", KEY)
    fence, made = bench.attempt(task)
    bench.complete(fence, made)
    found = bench.home.query(
        "SELECT d.name, e.attempt FROM events e JOIN datasets d ON d.id = e.dataset "
        "WHERE e.producer_task = %s",
        task,
    )
    assert found == [("doubled", 1)]


def test_a_canceled_run_has_no_task_that_a_completion_adds_meanwhile(bench: Bench) -> None:
    run, database, owner = add_run(bench), bench.database, bench.owner
    template = TaskTemplate(org=owner.org, project=owner.project, asset="numbers", kind=TARGET)
    first, second = (
        NewTask(template=template, trigger=TriggerKind.MANUAL, dedupe_key=str(uuid4()), run=run)
        for _ in range(2)
    )
    with database.transaction() as tx:
        Tasks(tx).add([first])
        record = Runs(tx).by_id(run)
    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as tx:
            Tasks(tx).lock(first.id, owner)
            Tasks(tx).add([second])
            canceled = threads.submit(run_tasks.cancel, database, record)
            wait_until(lambda: waits_for_a_lock(bench))
        canceled.result(60)
    assert (bench.status(first.id), bench.status(second.id)) == ("Canceled", "Canceled")
    bench.home.owner(f"DELETE FROM runs WHERE id = '{run}'")


def waits_for_a_lock(bench: Bench) -> bool:
    found = bench.home.query(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return bool(found)


def test_a_target_of_a_server_without_a_project_is_left_for_another_server(bench: Bench) -> None:
    task = bench.stale("doubled", KEY)
    server = Dispatcher(bench.database)
    with bench.database.transaction() as tx:
        found = claim(tx, bench.owner, task, "w")
    assert isinstance(found, Claimed)
    answer = server.answer(bench.owner, found)
    server.stop()
    result = target.work(answer["task"], Channel(io.StringIO(), 1, threading.Lock()))
    assert (result["status"], result["retryable"]) == ("Failed", True)
    assert "serves no project" in result["error"]["message"]
    with bench.database.transaction() as tx:
        operate.cancel(tx, bench.owner, task)
    bench.report(found.fence, None, ReportStatus.CANCELED)
