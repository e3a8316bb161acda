"""Files that output steps are asked for: the rows as they were there, where people look for them.

One project: a run that writes four outputs, then a folder that is not ours in the way of the next.
"""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.reply import Reply

PIPELINE = """\
import tallyman as tm

tm.source("stock", "data/stock.csv", "csv", key="item", schema="item string, n int, kind string")


@tm.asset(key="item")
def counted(stock):
    return (
        stock.output("exports/before.csv", columns=["item", "n"])
        .update({"n": "n + 1"}, where="kind = 'a'")
        .delete("n > 20")
        .output("exports/after.jsonl")
        .output("exports/all", include_deleted=True, register_as="all_counted")
        .update({"n": "0"})
    )
"""
CHECKED = """

@tm.asset(thresholds={"absolute": 0, "percentage": 0.0})
def checked(counted):
    return counted.expect("few", "RULE")
"""
MISTAKES = """\
import tallyman as tm

tm.source("stock", "data/stock.csv", "csv", key="item", schema="item string, n int, kind string")


@tm.asset
def a(stock):
    return stock.output("data").output("runs/x").output("exports/x.csv", register_as="Bad Name")


@tm.asset
def b(stock):
    return stock.output("exports").output("exports/b", columns=["itm"])
"""


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "outputs")
    (made.path / "data").mkdir()
    (made.path / "data" / "stock.csv").write_text("item,n,kind\nx,1,a\ny,20,a\nz,3,b\n")
    return made.pipeline(PIPELINE)


@dataclass(frozen=True)
class First:
    """The first run, and what could be asked and seen then; later ones change it."""

    said: Reply
    answers: dict[str, Any]
    exports: Path


@pytest.fixture(scope="module")
def first(home: Home, tmp_path_factory: pytest.TempPathFactory) -> First:
    said = home.tallyman("run")
    assert said.code == 0, said
    asked = (("read", "counted"), ("read", "all_counted"), ("commits",), ("plan",))
    answers = {" ".join(words): home.ok(*words) for words in asked}
    kept = tmp_path_factory.mktemp("kept") / "exports"
    shutil.copytree(home.path / "exports", kept)
    return First(said, answers, kept)


def test_an_output_holds_the_rows_as_they_were_at_its_step(first: First) -> None:
    with open(first.exports / "before.csv") as file:
        assert sorted(csv.reader(file)) == [["item", "n"], ["x", "1"], ["y", "20"], ["z", "3"]]
    text = (first.exports / "after.jsonl").read_text().splitlines()
    after = {row["item"]: row for row in map(json.loads, text)}
    assert {item: row["n"] for item, row in after.items()} == {"x": 2, "z": 3}
    assert after["z"]["_updated_at"] is None
    assert after["x"]["_updated_at"] is not None
    assert after["x"]["kind"] == "a"
    found = duckdb.sql(
        f"SELECT item, n, _deleted, _updated_at IS NULL FROM '{first.exports}/all/*.parquet' "
        "ORDER BY item"
    ).fetchall()
    assert found == [("x", 2, False, False), ("y", 21, True, False), ("z", 3, False, True)]


def test_the_asset_itself_has_what_its_last_step_left(first: First) -> None:
    [asset] = first.said.json["assets"]
    assert (asset["records_in"], asset["rows_out"], asset["unaccounted"]) == (3, 2, 0)
    read = first.answers["read counted"]
    assert sorted((row["item"], row["n"]) for row in read) == [("x", 0), ("z", 0)]


def test_a_registered_output_is_a_dataset_of_the_same_commit(first: First) -> None:
    assert first.said.json["published"] == {"all_counted": 1, "counted": 1}
    assert len(first.answers["commits"]) == 1
    read = first.answers["read all_counted"]
    assert sorted((row["item"], row["_deleted"]) for row in read) == [
        ("x", False),
        ("y", True),
        ("z", False),
    ]
    assert "all_counted" not in json.dumps(first.answers["plan"])  # it goes with its asset


@pytest.mark.wide
def test_files_that_no_run_wrote_are_not_replaced(home: Home, first: First) -> None:
    folder = home.path / "exports" / "all"
    (folder / "_tallyman.json").unlink()
    (folder / "precious.txt").write_text("mine")
    (home.path / "data" / "stock.csv").write_text("item,n,kind\nx,5,a\n")
    said = home.tallyman("run")
    assert said.code == 1, said
    error = said.json["error"]
    assert error["code"] == "export_failed"
    assert "'exports/all'" in error["message"]
    assert "no run wrote" in error["message"]
    assert (folder / "precious.txt").read_text() == "mine"
    assert len(home.ok("commits")) == 2  # what was published stays


def test_outputs_that_would_write_over_something_are_definition_errors(homes: Homes) -> None:
    said = homes.make(Home, "mistaken").pipeline(MISTAKES).tallyman("run")
    assert said.code == 2, said
    for text in (
        "output to 'data' would write over 'data/stock.csv' of source 'stock'",
        "output to 'runs/x' would write over 'runs' of Tallyman",
        "'Bad Name' is not a name for a dataset",
        "a dataset is Parquet, the output is csv",
        "output to 'exports' would write over 'exports/x.csv' of asset 'a'",
        "unknown column 'itm'. Did you mean 'item'?",
    ):
        assert text in json.dumps(said.json), (text, said)


@pytest.mark.wide
def test_what_a_failed_run_kept_back_comes_with_the_run_that_publishes_it(
    homes: Homes,
) -> None:
    own = homes.make(Home, "kept_back").pipeline(PIPELINE + CHECKED.replace("RULE", "n > 5"))
    (own.path / "data").mkdir()
    (own.path / "data" / "stock.csv").write_text("item,n,kind\nx,1,a\n")
    failed = own.tallyman("run")
    assert failed.code == 3, failed
    assert not (own.path / "exports").exists()
    own.pipeline(PIPELINE + CHECKED.replace("RULE", "n < 5"))
    said = own.ok("run")
    assert [asset["status"] for asset in said["assets"]] == ["skipped", "success"]
    assert set(said["published"]) == {"all_counted", "counted", "checked"}
    assert sorted(path.name for path in (own.path / "exports").iterdir()) == [
        "after.jsonl",
        "all",
        "before.csv",
    ]


def test_a_file_that_no_run_of_the_asset_wrote_is_never_replaced(homes: Homes) -> None:
    own = homes.make(Home, "replaced").pipeline(PIPELINE)
    (own.path / "data").mkdir()
    stock = own.path / "data" / "stock.csv"
    stock.write_text("item,n,kind\nx,1,a\n")
    precious = own.path / "exports" / "before.csv"
    precious.parent.mkdir()
    precious.write_text("precious")
    said = own.tallyman("run")
    assert said.code == 1, said
    [asset] = said.json["assets"]
    assert asset["error"]["code"] == "output_taken"
    assert "no run of asset 'counted' wrote the file that is there" in asset["error"]["message"]
    assert precious.read_text() == "precious"
    assert [path.name for path in precious.parent.iterdir()] == ["before.csv"]
    assert own.ok("commits") == [], "nothing was published"
    precious.unlink()
    own.ok("run")
    first = precious.read_text()
    stock.write_text("item,n,kind\nx,2,a\n")
    own.ok("run")
    assert precious.read_text() != first, "what a run wrote is replaced"
    precious.write_text("edited by hand")
    said = own.tallyman("run", "--force")
    assert said.code == 1, said
    assert "changed since run" in said.stdout
    assert precious.read_text() == "edited by hand"
