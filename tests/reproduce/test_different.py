"""Not the same: which rows by their key, which rejections, which counts; also with multiplicity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.engine.spark.environment import packages
from tests.reproduce.conftest import left, target, verdicts
from tests.world.numbers import NumbersHome

# What Spark knows to be random is refused. That a function of the session draws, nobody can see.
DRAWING = """\
import tallyman as tm


orders = tm.source(
    "orders", path="data/orders", format="json", key="id", schema="id string, kind string, n int"
)


@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def drawn(orders):
    return orders.withColumn("luck", "if(id = 'o001', chance(), 0.5D)").select(
        "id", "luck"
    )


@tm.asset(thresholds="absolute=0,percentage=1")
def kinds(orders):
    return orders.select("kind")


@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def lucky(orders):
    return orders.filter("chance() > 0.5", reason="no luck").select("id")
"""


@pytest.fixture(scope="module")
def home(orders: Callable[..., NumbersHome]) -> NumbersHome:
    made = orders(DRAWING)
    made.ok("run", "--run-id", "first")
    return made


def test_packages_that_are_not_what_they_were_are_named(
    home: NumbersHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(**versions: str) -> None:
        for folder in tmp_path.iterdir():
            folder.rmdir()
        for name, version in versions.items():
            (tmp_path / f"{name}-{version}.dist-info").mkdir()
        packages.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    installed(tm_rates="1.0", tm_gone="3")
    home.ok("run", "kinds", "--force", "--run-id", "then")
    installed(tm_rates="2.0")
    home.ok("run", "kinds", "--force", "--run-id", "now")
    assert home.tallyman("reproduce", "then").json["environment"] == [
        "package tm-gone: 3 then, None now",
        "package tm-rates: 1.0 then, 2.0 now",
    ]
    compared = home.tallyman("compare", "then", "now").json["sections"]
    [environment] = [one for one in compared if one["section"] == "environment"]
    differing = {one["path"]: (one["a"], one["b"]) for one in environment["differences"]}
    assert set(differing) == {"packages.tm-gone", "packages.tm-rates", "packages_hash"}
    assert differing["packages.tm-rates"] == ("1.0", "2.0")
    installed()


def output(home: NumbersHome, asset: str) -> Path:
    [run] = (home.path / "runs").glob("*_first")
    return next((run / asset / "output").glob("*.parquet"))


def rewritten(file: Path, rows: pa.Table) -> bytes:
    """Other rows in the run's file; the version in the warehouse has the bytes there were."""
    kept = file.read_bytes()
    file.unlink()
    pq.write_table(rows, file)
    return kept


def test_what_chance_decides_is_different_and_the_rows_are_named(home: NumbersHome) -> None:
    before = left(home)
    reply = home.tallyman("reproduce", "first")
    assert (reply.code, reply.json["verdict"]) == (1, "DIFFERENT")
    assert verdicts(reply.json)["kinds"] == "REPRODUCED"
    drawn = target(reply.json, "drawn")
    found = drawn["rows"]["difference"]
    assert (found["added"], found["removed"], found["changed"], found["by_key"]) == (0, 0, 1, True)
    [row] = found["rows"]
    assert (row["key"], row["columns"]) == ({"id": "o001"}, ["luck"])
    assert row["before"]["luck"] != row["after"]["luck"]
    assert drawn["ledger"] == []
    lucky = target(reply.json, "lucky")
    assert any("key_digest" in value["name"] for value in lucky["ledger"])
    assert lucky["rows"]["difference"]["added"] + lucky["rows"]["difference"]["removed"] > 0
    assert left(home) == before


def test_a_duplicate_row_that_is_gone_is_a_difference_that_a_person_sees(home: NumbersHome) -> None:
    file = output(home, "kinds")
    rows = pq.read_table(file)
    assert len(set(rows["kind"].to_pylist())) < rows.num_rows
    kept = rewritten(file, rows.slice(1))
    code, out, _ = home.printed("reproduce", "first")
    file.write_bytes(kept)
    assert code == 1
    assert "  rows: 1 added, 0 removed, 0 changed (no unique key: whole rows compared)" in out
    assert f"    + kind={rows['kind'][0].as_py()}\n" in out
    assert "    ~ id=o001   luck: " in out
    assert "the data does not decide" in out
    assert "tallyman reproduce first --keep" in out


def test_a_recorded_digest_that_was_edited_is_a_difference(home: NumbersHome) -> None:
    here = "asset_name = 'kinds' AND content_digest IS NOT NULL"
    home.sql(f"UPDATE materializations SET content_digest = reverse(content_digest) WHERE {here}")
    reply = home.tallyman("reproduce", "first")
    home.sql(f"UPDATE materializations SET content_digest = reverse(content_digest) WHERE {here}")
    kinds = target(reply.json, "kinds")
    assert kinds["verdict"] == "DIFFERENT"
    assert kinds["rows"]["digest_then"] == kinds["rows"]["digest_now"][::-1]
    assert "the files contain the same rows" in kinds["reasons"][0]
