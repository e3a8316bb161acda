"""Pipelines with equal names of assets live side by side in one database."""

from __future__ import annotations

import json

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.pipelines.conftest import NewPipeline
from tests.world.home import Home

PIPELINE = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, n int")


@tm.asset(key="id")
def clean(raw):
    return raw.filter("n > 0", reason="not positive")


@tm.asset(key="all")
def total(clean):
    return clean.withColumn("all", "'all'").groupBy("all").agg(n="sum(n)")
"""


def published_as(ending: str) -> str:
    text = PIPELINE.replace('key="id")\ndef', f'key="id", publish="clean_{ending}")\ndef')
    return text.replace('key="all")', f'key="all", publish="total_{ending}")')


def numbers(home: Home, *values: int) -> Home:
    return home.data("raw.jsonl", *({"id": f"r{n}", "n": n} for n in values))


@pytest.fixture(scope="module")
def north(new_pipeline: NewPipeline) -> Home:
    home = numbers(new_pipeline("north").pipeline(PIPELINE), 1, 2, -3)
    home.ok("run", "--run-id", "first")
    return home


@pytest.fixture(scope="module")
def south(new_pipeline: NewPipeline, north: Home) -> Home:
    """The same assets on the same rows: nothing but the name of the pipeline tells them apart."""
    home = numbers(new_pipeline("south").pipeline(PIPELINE), 1, 2, -3)
    reply = home.tallyman("run", "--run-id", "first")
    assert (reply.code, reply.json["error"]["code"]) == (4, "single_producer"), str(reply)
    for part in ("'clean'", "'north'", "publish="):
        assert part in json.dumps(reply.json, ensure_ascii=False).replace('\\"', '"')
    # Refused before anything is made.
    assert home.ok("runs") == []
    assert not (home.path / "runs").exists()
    assert not (home.path / "warehouse").exists()
    home.pipeline(published_as("south"))
    made = home.ok("run", "--run-id", "first")
    assert {one["name"]: one["status"] for one in made["assets"]} == {
        "clean": "success",
        "total": "success",
    }, "the other pipeline's results are not reused"
    return home


def states(home: Home, *words: str) -> dict[str, str]:
    return {one["name"]: one["status"] for one in home.ok("run", *words)["assets"]}


def each_pipeline_has_its_own_runs_results_and_log(north: Home, south: Home) -> None:
    for home, names in ((north, ("clean", "total")), (south, ("clean_south", "total_south"))):
        assert [run["run_id"] for run in home.ok("runs")] == ["first"]
        assert home.ok("show", "first")["run_id"] == "first"
        assert home.heads() == dict.fromkeys(names, 1)
        assert home.rows(names[0]) == [("r1", 1), ("r2", 2)]
        assert len(home.ok("commits")) == 1
        assert {row["resource"] for row in home.ok("audit")} & {"first"}
        assert home.ok("verify", "chain")["seals"] == 1
        up = home.ok("lineage", "up", "total")
        assert [(one["asset"], one["pipeline"]) for one in up] == [("clean", None), ("raw", None)]
        down = home.ok("lineage", "down", "raw")
        assert [(one["asset"], one["pipeline"]) for one in down] == [
            ("clean", None),
            ("total", None),
        ]
        assert home.ok("why", names[1], "all=all")["rows"] == 1
    assert states(north) == {"clean": "skipped", "total": "skipped"}


def changes_of_one_do_not_reach_the_other(north: Home, south: Home) -> None:
    numbers(north, 1, 2, 5)
    north.ok("run", "clean", "--run-id", "more")
    assert [row["stale"] for row in north.ok("ls", "total")] == ["clean changed"]
    assert [row["stale"] for row in south.ok("ls", "total")] == [None]
    assert states(south) == {"clean": "skipped", "total": "skipped"}
    south.ok("invalidate", "clean", "--cascade")
    assert states(north, "total", "--run-id", "rest") == {"total": "success"}
    assert states(north) == {"clean": "skipped", "total": "skipped"}
    assert states(south) == {"clean": "success", "total": "success"}
    with_head = "SELECT project, count(*) FROM heads WHERE commit_id IS NOT NULL GROUP BY 1"
    assert sorted(north.query(with_head)) == [("north", 1), ("south", 1)]


def a_cleanup_removes_nothing_of_the_other(north: Home, south: Home) -> None:
    before = sorted(str(p) for p in (south.path / "warehouse").rglob("*"))
    runs = sorted(str(p) for p in (south.path / "runs").rglob("*"))
    north.ok("cleanup", "--older-than", "0s", "--keep-versions", "1", "--confirm")
    assert north.ok("runs", "rm", "--older-than", "0s", "--confirm")
    assert sorted(str(p) for p in (south.path / "warehouse").rglob("*")) == before
    assert sorted(str(p) for p in (south.path / "runs").rglob("*")) == runs
    assert south.ok("verify", "chain")["intact"]
    assert [one for one in south.damaged() if "south" in one] == []


def another_organisation_may_use_the_same_names(
    north: Home, south: Home, new_pipeline: NewPipeline
) -> None:
    acme = numbers(new_pipeline("north", "organisation: acme\n").pipeline(PIPELINE), 7)
    acme.ok("run", "--run-id", "first")
    assert (acme.heads(), acme.rows("clean")) == ({"clean": 1, "total": 1}, [("r7", 7)])
    assert north.rows("clean") == [("r1", 1), ("r2", 2), ("r5", 5)]
    assert [p.name for p in (acme.path / "warehouse" / "org").iterdir()] == ["acme"]
    url = acme.project.database.url().replace("postgresql://", "postgresql+psycopg://")
    catalog = SqlCatalog("tallyman_acme", uri=url, init_catalog_tables="false")
    rows = catalog.load_table(("published", "clean")).scan().to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [("r7", 7)]
    assert ("r7", 7) not in (north.outside("clean") or [])
    assert [run["run_id"] for run in acme.ok("runs")] == ["first"]
    assert acme.tallyman("read", "clean_south").json["error"]["code"] == "not_found"
    catalog.engine.dispose()


def test_pipelines_live_side_by_side_in_one_database(
    north: Home, south: Home, new_pipeline: NewPipeline
) -> None:
    """Each part goes on where the one before ended."""
    each_pipeline_has_its_own_runs_results_and_log(north, south)
    changes_of_one_do_not_reach_the_other(north, south)
    a_cleanup_removes_nothing_of_the_other(north, south)
    another_organisation_may_use_the_same_names(north, south, new_pipeline)
