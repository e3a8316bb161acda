"""The clock is the run's: in every kind of step, when the run goes on after a crash, and when it
is made again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.reproduce.conftest import verdicts
from tests.world.numbers import NumbersHome

PIPELINE = """\
from pyspark.sql import functions as F

import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id",
                schema="id string, kind string, t timestamp, d date, n int")
kinds = tm.source("kinds", path="data/kinds.csv", format="csv", key="kind",
                  schema="kind string, label string")


@tm.asset(key="id")
def plain(raw):
    return raw.select("id", "'current_date()' AS word")


@tm.asset(key="id", thresholds="absolute=0,percentage=1",
          approval=tm.approval("late", when="max(selected) <> current_timestamp()"))
def rows(raw, kinds):
    looked_up = kinds.withColumn("looked", "`now`()").filter("looked = CURRENT_TIMESTAMP")
    return (
        raw.expect("past", "t <= now()", code="FUTURE")
        .expect("past_too", F.col("d") <= F.current_date())
        .filter("d < current_date", reason="not yet")
        .select("*", "current_timestamp()", "now() AS selected", F.now().alias("of_column"))
        .withColumn("nested", "date_format(coalesce(now(), t), 'yyyy-MM-dd HH:mm:ss')")
        .withColumn("local", "localtimestamp()")
        .withColumn("unix", "unix_timestamp ( /* none */ )")
        .withColumn("unix_of_column", F.col("n") * 0 + F.unix_timestamp())
        .withColumn("day", "curdate()")
        .withColumn("day_of_column", F.when(F.col("n") > 0, F.current_date()))
        .join(looked_up, "kind")
    )


@tm.asset
def united(raw):
    of_columns = raw.select("id", F.current_timestamp().alias("at"))
    return raw.select("id", "now() AS at").union(of_columns)


@tm.asset
def states(raw, kinds):
    added = raw.select("'added' AS id", "n", "now() AS t", "current_date() AS d")
    return (
        raw.update({"t": "now()", "d": "current_date"}, where="t < current_timestamp()")
        .update({"t": "k.looked"}, where="t = now()",
                join={"k": (kinds.withColumn("looked", "now()"), "kind = k.kind")})
        .delete(where=F.col("t") > F.current_timestamp())
        .aggregate(by=["kind"], t="max(now())", d="max(curdate())", where="d = current_date()")
        .append(added.filter("n = 1 AND t = now()"))
        .output("out/states.csv", columns=["id", "t", "_updated_at"])
    )
"""
IN_YAML = """\
assets:
  in_yaml:
    from: raw
    key: id
    steps:
      - filter: t < now()
      - withColumn: {at: CURRENT_TIMESTAMP}
"""
ASSETS = ("plain", "rows", "united", "states", "in_yaml")


@pytest.fixture
def home(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    made = new_home().pipeline(PIPELINE)
    (made.path / "pipelines" / "y.yaml").write_text(IN_YAML)
    (made.path / "data").mkdir()
    kinds = ("red", "green", "red", "green")
    records = [
        {"id": f"r{n}", "kind": kind, "t": "2024-05-01T10:00:00Z", "d": "2024-05-01", "n": n}
        for n, kind in enumerate(kinds, 1)
    ]
    records.append(records[0] | {"id": "r5", "t": "2999-01-01T00:00:00Z", "n": 5})
    text = "".join(json.dumps(record) + "\n" for record in records)
    (made.path / "data" / "raw.jsonl").write_text(text)
    (made.path / "data" / "kinds.csv").write_text("kind,label\nred,R\ngreen,G\n")
    return made


def rows(home: NumbersHome, run: str, asset: str) -> list[dict[str, Any]]:
    [folder] = (home.path / "runs").glob(f"*_{run}")
    return pq.read_table(folder / asset / "output").to_pylist()


def clock_of(home: NumbersHome, run: str) -> datetime:
    [folder] = (home.path / "runs").glob(f"*_{run}")
    return datetime.fromisoformat(json.loads((folder / "manifest.json").read_text())["timestamp"])


def times_in(listed: list[dict[str, Any]]) -> set[Any]:
    """Every time and day in the rows, but for those the records came with."""
    own = {"t", "d"}
    values = [v for row in listed for name, v in row.items() if name not in own]
    return {v for v in values if isinstance(v, (datetime, date))}


def check_times(home: NumbersHome, run: str) -> None:
    now = clock_of(home, run)
    for asset in ("united", "in_yaml"):
        assert times_in(rows(home, run, asset)) == {now}, asset
    made = rows(home, run, "rows")
    assert [row["id"] for row in made] == ["r1", "r2", "r3", "r4"]
    assert times_in(made) == {now, now.replace(tzinfo=None), now.date()}
    assert {row["current_timestamp()"] for row in made} == {now}
    assert {row["nested"] for row in made} == {f"{now:%Y-%m-%d %H:%M:%S}"}
    seconds = int(now.timestamp())
    assert {(row["unix"], row["unix_of_column"]) for row in made} == {(seconds, seconds)}
    states = rows(home, run, "states")
    assert len(states) == 4 + 2 + 1
    assert {(row["t"], row["d"]) for row in states} == {(now, now.date())}
    with (home.path / "out" / "states.csv").open() as file:
        written = list(csv.DictReader(file))
    assert {datetime.fromisoformat(row["t"]).astimezone(UTC) for row in written} == {now}


def test_every_step_sees_the_time_of_the_run_also_after_a_crash_and_when_made_again(
    home: NumbersHome,
) -> None:
    killed = home.tallyman("run", "--run-id", "first", TALLYMAN_CRASH_AT="segment_written@4")
    assert killed.code != 0
    began = clock_of(home, "first")
    home.ok("resume", "first")
    assert clock_of(home, "first") == began
    check_times(home, "first")
    [letter] = home.ok("rejections", "show", "first")["rejections"]
    assert letter["expected"] == "t <= now()"

    found = home.ok("reproduce", "first")
    assert found["verdict"] == "REPRODUCED"
    assert verdicts(found) == dict.fromkeys(ASSETS, "REPRODUCED")

    # The next run makes again what reads the clock, though its definition is the same.
    second = home.ok("run", "plain", "united", "--run-id", "second")
    states = {made["name"]: made["status"] for made in second["assets"]}
    assert states == {"plain": "skipped", "united": "success"}
    assert clock_of(home, "second") > clock_of(home, "first")
    assert times_in(rows(home, "second", "united")) == {clock_of(home, "second")}
    kept = "SELECT asset_name, count(DISTINCT definition_hash) FROM materializations GROUP BY 1"
    assert dict(home.sql(kept)) == dict.fromkeys(ASSETS, "1")
