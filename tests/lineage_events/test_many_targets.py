"""Many targets cost little: what all of them read is looked at once, and sums are kept."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tallyman.control.bind.inputs import Pins
from tallyman.control.compile import load
from tallyman.control.openlineage.asset import AssetFacts
from tallyman.control.openlineage.datasets import LineageDataset, merged
from tallyman.control.openlineage.events import LineageAsset, run_event
from tallyman.control.openlineage.facets import RunState
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.account.ledger_json import to_json
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.run import AssetResult, Status
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.engine.spark.project_session import ProjectSession
from tallyman.engine.warehouse.footers import extents, sizes
from tallyman.registry.database import Database
from tallyman.settings import read_settings
from tests.lineage_events.described import FOLDER, STARTED, SUMMARY, ledger, lineage_run, written
from tests.lineage_events.validation import valid

PIPELINE = """
sources:
  sales: {path: "in/{partition}.parquet", format: parquet, key: id}
  rates: {path: rates, format: parquet, key: id}
assets:
  daily:
    key: id
    from: sales
    partitioned_by: {column: day, start: 2000-01-01}
    steps:
      - join: {name: known, with: rates, on: [code], how: left}
"""


class NoSession(ProjectSession):
    def get(self, *_: object) -> SparkSession:
        raise AssertionError("nothing here needs Spark")


class Days:
    """A run of an asset that makes each day from a file of its own and from all of `rates`."""

    def __init__(self, home: Path, count: int) -> None:
        self.home, self.targets = home, [Target("daily", f"d:{day}") for day in _days(count)]
        (home / "tallyman.yaml").write_text("name: airline\n")
        (home / "pipelines").mkdir()
        (home / "pipelines" / "daily.yaml").write_text(PIPELINE)
        (home / "in").mkdir()
        for n, day in enumerate(_days(count)):
            pq.write_table(pa.table({"id": list(range(n + 1))}), home / "in" / f"{day}.parquet")
        for name in ("a", "b"):
            written(home / "rates", [1, 2], name=name)
        self.pipeline = load.load(home / "pipelines")
        settings, database = read_settings(home), Database(None, home / "state")
        for n, target in enumerate(self.targets):
            self.leave(target, n)
        session = NoSession(None, settings.state_folder)
        workspace = Workspace(settings, database, session, self.pipeline)
        self.pins = Pins(workspace, ordinals={})
        self.definitions = Definitions(workspace, ("daily",))
        self.teller = AssetFacts(self.definitions, lineage_run(), FOLDER)

    def leave(self, target: Target, revenue: int) -> None:
        place = self.home / FOLDER / folder_of(self.pipeline.assets, target)
        written(place / "output", [revenue])
        (place / "errors").mkdir()
        (place / "ledger.json").write_text(json.dumps(to_json(StoredLedger.of(ledger()))))
        (place / "errors" / "_summary.json").write_text(json.dumps(SUMMARY))

    def ended(self, target: Target, status: Status = Status.SUCCESS) -> LineageAsset:
        return self.teller.ended(target, result(target, status), self.pins.of(target))

    def told_at_the_end(self) -> dict[str, Any]:
        results = {target: result(target) for target in self.targets}
        return whole(self.teller.all_of(results, None))


def _days(count: int) -> list[date]:
    return [date(2000, 1, 1) + timedelta(n) for n in range(count)]


def result(target: Target, status: Status = Status.SUCCESS) -> AssetResult:
    return AssetResult(name="daily", partition=target.partition, status=status, attempt=1)


def whole(assets: list[LineageAsset]) -> dict[str, Any]:
    event = dict(run_event(lineage_run(), RunState.COMPLETE, STARTED, assets).body)
    valid(event)
    return event


@pytest.fixture
def days(tmp_path: Path) -> Callable[[int], Days]:
    return lambda count: Days(tmp_path, count)


def test_what_all_partitions_share_is_looked_at_once(days: Callable[[int], Days]) -> None:
    made = days(3)
    first = made.ended(made.targets[0])
    made.pins.of(made.targets[1])
    (made.home / "pipelines" / "daily.yaml").unlink()
    for file in (made.home / "rates").iterdir():
        file.unlink()
    second = made.ended(made.targets[1])
    assert first.code is not None
    assert second.code == first.code == made.teller.starting(made.targets[2], 1).code
    assert [one.row_count for one in first.inputs] == [1, 4]
    assert [one.row_count for one in second.inputs] == [2, 4], "its own file is read, though"


def test_a_target_reads_what_the_manifest_says_of_it(days: Callable[[int], Days]) -> None:
    told = days(1).teller.starting(Target("daily", "d:2000-01-01"), 1)
    assert told.reads == ["sales[d:2000-01-01]", "rates"]


def test_the_end_of_a_run_tells_the_same_of_sums_as_of_files(days: Callable[[int], Days]) -> None:
    made = days(5)
    one_by_one = [made.ended(target) for target in made.targets]
    told = made.told_at_the_end()
    files = [_with_files(each, made) for each in one_by_one]
    assert told == whole(files)
    sales, rates = told["inputs"]
    metrics = sales["inputFacets"]["dataQualityMetrics"]
    assert (metrics["rowCount"], metrics["fileCount"]) == (1 + 2 + 3 + 4 + 5, 5)
    assert metrics["columnMetrics"]["id"]["max"] == 4
    assert rates["inputFacets"]["dataQualityMetrics"]["fileCount"] == 2
    [output] = told["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 5
    assert output["facets"]["dataQualityMetrics"]["columnMetrics"]["total_revenue"]["max"] == 4
    assert output["facets"]["tallyman_errors"]["errors_by_type"]["join_error"] == 5 * 132
    assert told["run"]["facets"]["tallyman_ledger"]["records_in"] == 5 * 349_660


def _with_files(told: LineageAsset, made: Days) -> LineageAsset:
    """As it would be told if every file of every target were kept; the plan is the first one's."""
    pins = made.pins.of(Target("daily", told.result.partition))
    inputs = [
        replace(one, extent=extents([file.path for file in pins[one.called].files.files]))
        for one in told.inputs
    ]
    return replace(told, inputs=inputs)


def test_what_was_used_again_is_in_no_sum(days: Callable[[int], Days]) -> None:
    made = days(3)
    made.ended(made.targets[0])
    made.ended(made.targets[1], Status.SKIPPED)
    results = {made.targets[0]: result(made.targets[0])}
    results[made.targets[1]] = result(made.targets[1], Status.SKIPPED)
    told = whole(made.teller.all_of(results, None))
    assert told["inputs"][0]["inputFacets"]["dataQualityMetrics"]["rowCount"] == 1


def test_of_what_could_not_be_kept_no_wrong_sum_is_told(days: Callable[[int], Days]) -> None:
    made = days(2)
    for target in made.targets:
        made.ended(target)
    made.teller.ended(made.targets[1], result(made.targets[1], Status.FAILED), {})
    [output] = made.told_at_the_end()["outputs"]
    assert output["outputFacets"] == {}
    assert "dataQualityMetrics" not in output["facets"]


def test_a_target_more_costs_little_memory(days: Callable[[int], Days]) -> None:
    made = days(150)
    for target in made.targets[:50]:
        made.ended(target)
    tracemalloc.start()
    try:
        pins = [made.pins.of(target) for target in made.targets[50:]]
        before, _ = tracemalloc.get_traced_memory()
        for target, pinned in zip(made.targets[50:], pins, strict=True):
            made.teller.ended(target, result(target), pinned)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 100 < 6_400


def test_datasets_are_put_together_once(tmp_path: Path) -> None:
    paths = [written(tmp_path, [n], name=f"part-{n}") for n in range(3)]
    csv = tmp_path / "x.csv"
    csv.write_text("a\n1\n")

    def told(name: str, **known: Any) -> LineageDataset:
        return LineageDataset(called=name, namespace="n", name=name, **known)

    one, other, none = merged(
        [
            told("a", extent=extents(paths[:2]), version=3, rows=7),
            told("b", rows=5),
            told("a", extent=extents(paths[1:]), version=9, rows=7),
            told("c"),
            told("b", rows=6),
            told("a", rows=7),
        ]
    )
    assert one.extent is not None
    assert (one.extent.rows, len(one.extent.files), one.version, one.rows) == (3, 3, 9, 7)
    assert one.extent.columns["segments"].values == 3
    assert (other.extent, other.rows, other.version) == (None, None, None)
    assert (none.extent, none.rows) == (None, None)
    [mixed] = merged([told("a", extent=extents(paths)), told("a", extent=sizes([str(csv)]))])
    assert mixed.extent is not None
    assert (mixed.extent.rows, mixed.extent.columns) == (None, {})
    assert mixed.extent.bytes == sum(Path(path).stat().st_size for path in [*paths, csv])
