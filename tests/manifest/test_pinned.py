"""What a run reads of datasets: a version is asked for once, what changes each time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

import tallyman as tm
from tallyman.control.bind.inputs import Pins
from tallyman.control.bind.manifest import inputs_of
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.pipeline.declarations import declaring
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.target import Reading, Target
from tallyman.domain.version.dataset import DataFile, Dataset, Fragment, Kind
from tallyman.domain.version.owner import Owner
from tallyman.engine.spark.project_session import ProjectSession
from tallyman.registry.database import Database
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments
from tallyman.settings import read_settings
from tests.world.databases import owner_of

DAYS = ["d:2024-01-01", "d:2024-01-02", "d:2024-01-03"]
ADD_RUN = """
    INSERT INTO runs (id, name, org, project, status, folder, actor, started_at)
    VALUES (%(run)s, %(run)s::text, 'default', 'shop', 'success', 'r', 'test', now())
"""
MADE = """
    INSERT INTO materializations (id, org, project, asset_name, partition, run_id, status,
        fragment_id, started_at, completed_at, upstream_assets, upstream_partitions, upstream_ids,
        definition_hash, dependency_hash, content_digest, location)
    VALUES (gen_random_uuid(), 'default', 'shop', 'sales', %(partition)s, %(run)s, 'success',
        %(fragment)s, now(), now(), '{}', '{}', '{}', 'd', 'd', 'c', 'r/sales')
"""
INVALIDATE = "UPDATE materializations SET invalidated_at = now() WHERE partition = %(partition)s"


def pipeline() -> Pipeline:
    with declaring() as declared:

        @tm.asset(partitioned_by=tm.daily("day", start="2024-01-01"), key="id")
        def sales(raw: tm.Frame) -> tm.Frame:
            return raw

        @tm.asset(partitioned_by=tm.daily("day", start="2024-01-01"), key="id")
        def costs(sales: tm.Frame) -> tm.Frame:
            return sales

        @tm.asset(key="id")
        def year(sales: tm.Frame) -> tm.Frame:
            return sales

        tm.source("raw", path="raw", format="parquet", key="id")
    return Pipeline.of(declared)


@dataclass
class DailySales:
    home: Path
    database: Database
    dataset: Dataset

    def pins(self, ordinal: int | None = 1, run: UUID | None = None) -> Pins:
        pinned = None if ordinal is None else {self.dataset.id: ordinal}
        settings = read_settings(self.home)
        session = ProjectSession(None, settings.state_folder)
        workspace = Workspace(settings, self.database, session, pipeline())
        return Pins(workspace, run, pinned)

    def publish(self, days: Sequence[str], ordinal: int) -> None:
        for day in days:
            self.fragment(day, ordinal)

    def fragment(self, day: str, ordinal: int | None) -> UUID:
        made = Fragment(
            id=uuid.uuid4(),
            dataset_id=self.dataset.id,
            partition=day,
            files=(DataFile("x.parquet", "0" * 64, 10, 1),),
            digest=f"{day} {ordinal}",
            schema={},
        )
        with self.database.transaction() as tx:
            Fragments(tx).open(made, None)
            Fragments(tx).prepare(made, None)
            if ordinal is not None:
                Fragments(tx).join(self.dataset.id, [made.id], ordinal)
        return made.id

    def empty_versions(self) -> None:
        """What never happens."""
        with psycopg.connect(owner_of(self.database.url())) as owner:
            owner.execute("DELETE FROM version_fragments")

    def run(self) -> UUID:
        run = uuid.uuid4()
        with self.database.transaction() as tx:
            tx.execute(ADD_RUN, {"run": run})
        return run

    def make(self, run: UUID, day: str) -> UUID:
        fragment = self.fragment(day, None)
        with self.database.transaction() as tx:
            tx.execute(MADE, {"run": run, "partition": day, "fragment": fragment})
        return fragment


@pytest.fixture
def shop(tmp_path: Path, empty_database: Callable[[], str]) -> Iterator[DailySales]:
    (tmp_path / "tallyman.yaml").write_text("name: shop\n")
    database = Database(empty_database(), tmp_path / ".tallyman")
    wanted = Dataset(
        id=UUID(int=0),
        name="sales",
        kind=Kind.ASSET,
        owner=Owner("default", "shop"),
        producer="sales",
        partition_column="day",
    )
    with database.transaction() as tx:
        dataset = Datasets(tx).ensure(wanted)
    found = DailySales(tmp_path, database, dataset)
    found.publish(DAYS, 1)
    yield found
    database.close()


def read(pins: Pins, day: str | None = None) -> list[str]:
    return [one.digest for one in pins.fragments(Reading("sales", day, of_source=False))]


def test_a_pinned_version_is_asked_for_once(shop: DailySales) -> None:
    """It cannot change; that it is not asked for again shows when it is made to."""
    pins, asking = shop.pins(), shop.pins()
    first = [read(pins, day) for day in DAYS]
    assert first == [["d:2024-01-01 1"], ["d:2024-01-02 1"], ["d:2024-01-03 1"]]
    shop.empty_versions()
    assert [read(pins, day) for day in DAYS] == first
    assert read(pins) == [digest for [digest] in first]
    assert read(pins, "d:2024-01-09") == []
    assert read(asking) == []


def test_without_pins_the_newest_is_asked_for_each_time(shop: DailySales) -> None:
    pins = shop.pins(ordinal=None)
    assert read(pins, DAYS[0]) == [], "no version is current"
    with shop.database.transaction() as tx:
        tx.execute("UPDATE datasets SET ordinal = 1")
    assert read(pins, DAYS[0]) == ["d:2024-01-01 1"]


def test_what_the_run_makes_meanwhile_is_read(shop: DailySales) -> None:
    run = shop.run()
    pins, other = shop.pins(run=run), shop.pins()
    assert len(read(pins)) == len(read(other)) == 3
    shop.make(run, DAYS[1])
    shop.make(run, "d:2024-01-04")
    assert sorted(read(pins)) == [
        "d:2024-01-01 1",
        "d:2024-01-02 None",
        "d:2024-01-03 1",
        "d:2024-01-04 None",
    ]
    assert read(pins, DAYS[1]) == ["d:2024-01-02 None"]
    assert read(pins, DAYS[0]) == ["d:2024-01-01 1"]
    assert len(read(other)) == 3


def test_what_is_declared_invalid_meanwhile_is_lacking(shop: DailySales) -> None:
    pins, run = shop.pins(), shop.run()
    for day in DAYS:
        shop.make(run, day)
    one, whole = (Reading("sales", day, of_source=False) for day in (DAYS[1], None))
    assert pins.lacking(one) == pins.lacking(whole) == []
    with shop.database.transaction() as tx:
        tx.execute(INVALIDATE, {"partition": DAYS[1]})
    assert pins.lacking(one) == pins.lacking(whole) == [Target("sales", DAYS[1])]
    assert pins.lacking(Reading("sales", DAYS[0], of_source=False)) == []
    gone = Reading("sales", "d:2024-01-09", of_source=False)
    assert pins.lacking(gone) == [Target("sales", "d:2024-01-09")]


def test_binding_reads_a_version_once_whatever_the_number_of_partitions(shop: DailySales) -> None:
    pins = shop.pins()
    read(pins, DAYS[0])
    shop.empty_versions()
    targets = [*(Target("costs", day) for day in DAYS), Target("year")]
    bound = inputs_of(pins.workspace.pipeline, targets, pins)
    assert list(bound) == [*(f"sales[{day}]" for day in DAYS), "sales"]
    assert [one.files for one in bound.values()] == [1, 1, 1, 3]
    assert len({one.hash for one in bound.values()}) == 4


def test_threads_get_the_same_answer(shop: DailySales) -> None:
    pins = shop.pins(run=shop.run())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: read(pins, DAYS[n % 3]), range(60)))
    assert found == [[f"{DAYS[n % 3]} 1"] for n in range(60)]
