"""`tallyman check` finds every mistake at once, with file and line, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_imports import loaded_by
from tests.world.home import Home
from tests.world.homes import Homes

SOURCES = """\
import tallyman as tm
from pyspark.sql import functions as F

tm.source("orders", "data/orders.jsonl", key="id", schema="id int, v int, day date, word string")
tm.source("stored", "data/nowhere", "parquet", key="id")
"""
SOUND = f"""\
{SOURCES}

@tm.asset(key="id")
def good(orders):
    return orders.filter("v > 0", reason="none").withColumn("twice", F.col("v") * 2)
"""
# One mistake in each asset: the asset, what is said of it, and the step it is in.
MISTAKES = {
    "unknown_column": ("return orders.filter('vv = 1', reason='x')", "unknown column 'vv'"),
    "forbidden": ("return orders.filter('rand() > 0.5', reason='x')", "another value each time"),
    "generator": ("return orders.withColumn('x', 'explode(array(1))')", "explode"),
    "wrong_type": ("return orders.filter('v', reason='x')", "BOOLEAN"),
    "over_a_source": ("return orders.output('data/orders.jsonl')", "would write over"),
    "over_us": ("return orders.output('runs/x.csv')", "would write over 'runs' of Tallyman"),
    "no_frame": ("return 5", "must return a Frame, not int"),
    "raises": ("raise KeyError('lost')", "KeyError: 'lost'"),
    "exits": ("raise SystemExit(0)", "the function ended the program"),
    "two_steps": (
        "return orders.filter('v > 0', reason='x', name='n').filter('v > 1', reason='y', name='n')",
        "two steps are named 'n'",
    ),
    "bad_key": ("return orders.drop('id')", "the result has no column 'id'"),
    "no_column": ("return orders.select('idd')", "unknown column 'idd'"),
    "clash": ("return orders.join(orders, 'id = v')", "both sides have a column"),
}


def written(**bodies: str) -> str:
    parts = [
        f"\n\n@tm.asset(key='id')\ndef {name}(orders):\n    {body}\n"
        for name, body in bodies.items()
    ]
    return SOURCES + "".join(parts)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "tallyman.yaml").write_text("name: checked\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders.jsonl").write_text('{"id": 1}\n')
    return Home(tmp_path)


def left(home: Home) -> set[str]:
    """All that is new, except Spark's log and the format of its folder."""
    found = {str(p.relative_to(home.path)) for p in home.path.rglob("*") if p.is_file()}
    ours = ("tallyman.yaml", "data/", "pipelines/", ".tallyman/spark.log", ".tallyman/format")
    return {name for name in found if not name.startswith(ours)}


def problems(home: Home, *words: str) -> list[dict[str, Any]]:
    reply = home.tallyman("check", *words)
    assert reply.code == 2, reply
    assert reply.json["ok"] is False
    return list(reply.json["problems"])


def test_sound_definitions_pass_and_leave_nothing_behind(home: Home) -> None:
    reply = home.pipeline(SOUND).tallyman("check")
    assert reply.code == 0, reply
    assert reply.json["ok"] is True
    assert reply.json["checked"] == ["good"]
    assert reply.json["spark"] is True
    assert not left(home), "no database, no run folder, no warehouse"
    assert "no mistakes   1 definition checked" in home.printed("check").stdout


def test_all_mistakes_of_all_assets_come_at_once_with_their_place(home: Home) -> None:
    text = written(**{name: body for name, (body, _) in MISTAKES.items()})
    home.pipeline(text)
    found = problems(home)
    for name, (_, said) in MISTAKES.items():
        own = [one for one in found if one["path"].startswith(f"asset {name}")]
        assert own, (name, found)
        assert any(said in one["message"] for one in own), own
        lines = text.splitlines()
        for one in own:
            assert one["file"] == "pipelines/p.py"
            assert lines[one["line"]].startswith(f"def {name}("), one
    assert not left(home)


def test_what_check_finds_run_refuses_and_what_it_passes_run_begins(home: Home) -> None:
    """One asset at a time: the same mistakes, whoever looks."""
    for name in ("unknown_column", "wrong_type", "over_a_source", "exits"):
        home.pipeline(written(**{name: MISTAKES[name][0]}))
        by_run = home.tallyman("run")
        assert by_run.code == 2, by_run
        theirs = {(one["where"], one["message"]) for one in by_run.json["error"]["problems"]}
        assert {(one["path"], one["message"]) for one in problems(home)} == theirs


def test_only_the_selected_assets_and_what_they_read_are_checked(home: Home) -> None:
    text = written(a="return orders", b="return orders.filter('vv = 1', reason='x')")
    text += "\n\n@tm.asset\ndef c(b):\n    return b\n"
    home.pipeline(text)
    assert home.tallyman("check", "a").code == 0
    for chosen in ("b", "c", "+c"):
        [found] = problems(home, chosen)
        assert found["path"] == "asset b, step 10_filter"
    reply = home.tallyman("check", "c")
    assert reply.json["not_checked"] == {
        "c": "it reads 'b', which could not be checked or has mistakes"
    }
    unknown = home.printed("check", "nobody")
    assert unknown.code == 2
    assert "there is no asset 'nobody'" in unknown.stderr
    assert "does not read" in home.printed("check", "state:modified").stderr


def test_files_tables_cycles_and_names_are_reported_together(home: Home) -> None:
    folder = home.path / "pipelines"
    folder.mkdir()
    (folder / "a_broken.py").write_text(
        "import tallyman as tm\n\ntm.source('x', 'y', format='z')\n"
    )
    (folder / "b_syntax.py").write_text("x = 1\ndef (:\n")
    (folder / "c_yaml.yaml").write_text("assets:\n  y:\n    from: orders\n    stepz: []\n")
    text = SOURCES + (
        "\n@tm.asset\ndef one(two):\n    return two\n"
        "\n@tm.asset\ndef two(one):\n    return one\n"
        "\n@tm.asset(name='Ledger.json', publish='x')\ndef three(orders):\n    return orders\n"
        "\n@tm.asset\ndef four(orders):\n    return orders.filter('vv = 1', reason='x')\n"
        "\n@tm.asset\ndef five(elsewhere):\n    return elsewhere\n"
    )
    (folder / "d.py").write_text(text)
    reply = home.tallyman("check")
    assert reply.code == 2
    places = {(one["file"], one["line"], one["path"]) for one in reply.json["problems"]}
    assert ("pipelines/a_broken.py", 3, "a_broken.py") in places
    assert ("pipelines/b_syntax.py", 2, "b_syntax.py") in places
    assert ("pipelines/c_yaml.yaml", 4, "assets.y.stepz") in places or any(
        file == "pipelines/c_yaml.yaml" and line == 4 for file, line, _ in places
    )
    paths = {path for _, _, path in places}
    assert {"asset one", "asset Ledger.json", "asset four, step 10_filter"} <= paths
    assert reply.json["not_checked"]["five"] == "it reads 'elsewhere', which could not be read"
    assert not left(home)


def test_a_source_whose_schema_cannot_be_read_is_named(home: Home) -> None:
    text = SOURCES + "\n@tm.asset\ndef a(stored):\n    return stored\n"
    reply = home.pipeline(text).tallyman("check")
    assert reply.code == 0, reply
    assert set(reply.json["not_checked"]) == {"a", "stored"}
    assert "not checked: stored: " in home.printed("check").stderr


def test_without_spark_columns_and_types_are_left_out_and_that_is_said(home: Home) -> None:
    plain = SOURCES.replace("from pyspark.sql import functions as F\n", "")
    plain += "\n@tm.asset\ndef a(orders):\n    return orders.filter('vv = 1', reason='x')\n"
    home.pipeline(plain)
    reply = home.printed("check", "--no-spark")
    assert reply.code == 0
    assert "columns and types were not checked: Spark was not started" in reply.stderr
    assert "pyspark" not in loaded_by(home.path, "check", "--no-spark")
    home.pipeline(plain.replace(".filter('vv = 1', reason='x')", ".output('runs/x')"))
    assert "would write over" in problems(home, "--no-spark")[0]["message"]
    assert not left(home)


def test_a_project_of_tables_is_checked_without_spark(home: Home) -> None:
    home.pipeline("import tallyman as tm\ntm.table('t', schema='a int', key='a')\n")
    assert "pyspark" not in loaded_by(home.path, "check")
    reply = home.tallyman("check")
    assert (reply.code, reply.json["checked"], reply.json["spark"]) == (0, ["t"], False)


def test_with_spark_connect_the_same_mistakes_are_found(homes: Homes) -> None:
    """Connect analyzes late: a filter of an unknown column has the columns of its input."""
    text = written(
        last="return orders.filter('vv = 1', reason='x')",
        before="return orders.expect('e', 'vv = 1').filter('rand() > 0.5', reason='x')",
    )
    found = problems(homes.make(Home, "connected").pipeline(text))
    assert [one["path"] for one in found] == [
        "asset last, step 10_filter",
        "asset before, step 10_expect",
        "asset before, step 20_filter",
    ]


def test_a_trigger_that_cannot_work_is_a_mistake_with_its_line(home: Home) -> None:
    reads = "def {}(orders):\n    return orders\n"
    home.pipeline(SOURCES + "\n@tm.asset(key='id', trigger='event')\n" + reads.format("waits"))
    [waits] = problems(home, "--no-spark")
    assert "it reads only sources, which have no events" in waits["message"]
    ticks = "\n@tm.asset(key='id', trigger=tm.schedule('0 25 * * *'))\n"
    home.pipeline(SOURCES + ticks + reads.format("late"))
    [late] = problems(home, "--no-spark")
    assert "hour '25': expected 0 to 23" in late["message"]
    line = SOURCES.count("\n") + 2
    assert [(one["file"], one["line"]) for one in (waits, late)] == [("pipelines/p.py", line)] * 2
