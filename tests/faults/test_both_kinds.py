"""Spark Connect and a local Spark in one process, which PySpark alone does not allow."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tallyman.project import Project
from tests.forked import Running
from tests.guard import ProcessState
from tests.world.homes import INTERPRETED

# A column, where an expression would do: it is of one kind of Spark, and of no use to the other.
PIPELINE = """\
import tallyman as tm
from pyspark.sql import functions as F

raw = tm.source("raw", path="raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(key="id")
def doubled(raw):
    return raw.withColumn("n", F.col("n") * 2)
"""
DOUBLED = [["a", 2], ["b", 4]]


@pytest.fixture
def both(tmp_path: Path, spark_server: str, empty_database: Callable[[], str]) -> tuple[Path, Path]:
    """One on the server and one with a Spark in the process."""
    made = tmp_path / "connected", tmp_path / "local"
    for home, master in zip(made, (spark_server, "local[2]"), strict=True):
        (home / "pipelines").mkdir(parents=True)
        (home / "pipelines" / "p.py").write_text(PIPELINE)
        (home / "raw.jsonl").write_text('{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n')
        settings = f"name: shop\nmaster: {master}\ndatabase: {empty_database()}\n{INTERPRETED}"
        (home / "tallyman.yaml").write_text(settings)
    return made


def _rows(project: Project) -> list[list[object]]:
    found = project.read("doubled").select(F.col("id"), F.col("n"))
    return sorted(list(row) for row in found.collect())


def _in_turns(connected: Path, local: Path) -> dict[str, object]:
    """One kind, the other before the first is closed, and the first again."""
    first, told = Project.open(connected), dict[str, object]()
    told["connected"] = [first.run().status.value, _rows(first)]
    with Project.open(local) as second:
        told["local"] = [second.run().status.value, _rows(second)]
        told["connected again"] = [first.run().assets[0].status.value, _rows(first)]
        told["local again"] = [second.run().assets[0].status.value, _rows(second)]
    told["shared"] = Project.open(connected).spark is first.spark
    other = Project.open(connected, master=f"{first.settings.master}/;user_id=other")
    told["another server"] = other.spark is not first.spark
    for project in (other, first):
        project.close()
    return told


def _among_others(connected: Path, local: Path) -> dict[str, object]:
    """In a process whose owner has a Connect session and a default server of his own."""
    told = dict[str, object]()
    server = os.environ["SPARK_REMOTE"] = str(Project.open(connected).settings.master)
    owners = SparkSession.builder.remote(server).create()
    owners.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = ProcessState.now()
    for home in (connected, local):
        with Project.open(home) as project:
            told[f"rows of {home.name}"] = _rows(project)
        told[f"left by {home.name}"] = list(before.differences(ProcessState.now()))
    told["owners"] = [row.id for row in owners.range(3).filter(F.col("id") > 0).collect()]
    told["zone"] = owners.conf.get("spark.sql.session.timeZone")
    (local / "tallyman.yaml").write_text("name: shop\n")
    told["default"] = Project.open(local).settings.master == server
    return told


def _one_process(connected: Path, local: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = ProcessState.now()
    turns = _in_turns(connected, local)
    left = list(before.differences(ProcessState.now()))
    told = {"turns": turns, "left": left, "others": _among_others(connected, local)}
    sys.stdout.write(json.dumps(told))


def test_projects_of_both_kinds_take_turns_and_leave_the_process_as_it_was(
    both: tuple[Path, Path],
) -> None:
    code, out, err = Running(both[1], os.environ, partial(_one_process, *both)).wait()
    assert code == 0, err
    told = json.loads(out)
    assert told["turns"] == {
        **{name: ["success", DOUBLED] for name in ("connected", "local")},
        **{f"{name} again": ["skipped", DOUBLED] for name in ("connected", "local")},
        "shared": True,
        "another server": True,
    }
    assert told["left"] == []
    # Nor does whoever uses Spark Connect beside them lose anything.
    assert told["others"] == {
        **{f"rows of {name}": DOUBLED for name in ("connected", "local")},
        **{f"left by {name}": [] for name in ("connected", "local")},
        "owners": [1, 2],
        "zone": "Asia/Tokyo",
        "default": True,
    }
