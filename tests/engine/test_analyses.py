"""How often Spark is asked to analyze a plan: over Spark Connect each question analyzes the whole
plan, and for a small asset that was half of the time."""

from __future__ import annotations

from collections.abc import Iterator
from traceback import extract_stack
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """
import tallyman as tm

tm.source("people", "data/people.jsonl", schema="id int, city string, n int", key="id")

@tm.asset(evidence="{evidence}")
def counted(people):
    return (people.expect("some", "n > 0").filter("city <> 'x'").drop("id")
        .groupBy("city").agg(n="count(*)"))

@tm.asset
def passed(people):
    return people.expect("some", "n > 0").withColumn("double", "n * 2").select("id", "double")
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The rooms of the engine that asked for the schema of a plan, but for the check of it."""
    found: list[str] = []
    analyze = SparkConnectClient._analyze

    def noted(self: SparkConnectClient, method: str, **more: Any) -> Any:
        files = [f.filename.rpartition("/tallyman/")[2] for f in extract_stack()]
        ours = [file for file in files if file.startswith(("engine/", "control/"))]
        if method == "schema" and not any(file.endswith("check.py") for file in ours):
            found.append(ours[-1] if ours else files[-1])
        return analyze(self, method, **more)

    monkeypatch.setattr(SparkConnectClient, "_analyze", noted)
    return found


@pytest.mark.parametrize("evidence", ["keys", "digest"])
def test_a_run_asks_for_no_schema_that_its_files_or_its_source_know(
    homes: Homes, asked: list[str], evidence: str
) -> None:
    home = homes.make(Home, "asked").pipeline(PIPELINE.format(evidence=evidence))
    home.data("people.jsonl", *({"id": n, "city": "ab"[n % 2], "n": n + 1} for n in range(10)))
    home.ok("run")
    assert asked == []
