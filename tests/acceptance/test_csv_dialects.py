"""CSV as people have it: what is read is what was written, and half a value is a rejection."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

SCHEMA, ANY = "k int, v string", dict(thresholds=dict(absolute=0, percentage=1))
tm.source("standard", "data/standard.csv", format="csv", schema=SCHEMA, key="k")
tm.source("open_quotes", "data/open.csv", format="csv", schema=SCHEMA, key="k")
tm.source("windows", "data/windows.csv", format="csv", schema=SCHEMA, key="k")
tm.source("of_spark", "data/spark.csv", format="csv", schema=SCHEMA, key="k",
          options={"escape": "\\\\"})


@tm.asset(key="k", **ANY)
def from_standard(standard):
    return standard.output("out/standard.csv", columns=["k", "v"])


@tm.asset(key="k", **ANY)
def from_open(open_quotes):
    return open_quotes


@tm.asset(key="k", **ANY)
def from_windows(windows):
    return windows


@tm.asset(key="k", **ANY)
def from_spark(of_spark):
    return of_spark
"""
FILES = {
    "standard.csv": 'k,"v"\n1,"say ""hi"" now"\n2,"a, b"\n3,"two\nlines, ""one"" value"\n4,\n',
    "open.csv": '\ufeffk,v\n1,"a\nb\n2,c\n3,"d"\n4,5" nail\n5,"x"y\n6,fine\n',
    "windows.csv": 'k,v\r\n1,plain\r\n\r\n2,"two\r\nlines"\r\n3,twice\r\r\n',
    "spark.csv": 'k,v\n1,"say \\"hi\\" now"\n2,"say ""hi"" now"\n3,back\\slash\n',
}


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "dialects").pipeline(PIPELINE)
    (made.path / "data").mkdir()
    for name, text in FILES.items():
        (made.path / "data" / name).write_bytes(text.encode())
    made.ok("run", "--run-id", "first")
    return made


def rows(home: Home, dataset: str) -> dict[int, str | None]:
    return {row["k"]: row["v"] for row in home.ok("read", dataset)}


def rejected(home: Home, asset: str) -> dict[str, str]:
    """The text of each rejected line by the place of the line."""
    found = home.ok("rejections", "show", "first", "--asset", asset)["rejections"]
    assert {one["error_type"] for one in found} <= {"parse_error"}
    return {one["source_key"]: one["actual"] for one in found}


def behind(home: Home, dataset: str, key: int) -> dict[str, Any]:
    [hop] = home.ok("why", dataset, f"k={key}")["hops"]
    [origin] = hop["inputs"]
    [record] = origin["records"]
    return record


def test_doubled_quotes_separators_and_line_breaks_are_values(home: Home) -> None:
    found = {1: 'say "hi" now', 2: "a, b", 3: 'two\nlines, "one" value', 4: None}
    assert rows(home, "from_standard") == found
    assert rejected(home, "from_standard") == {}


def test_an_output_step_writes_what_other_programs_read(home: Home) -> None:
    with (home.path / "out" / "standard.csv").open(newline="") as file:
        written = {int(row["k"]): row["v"] or None for row in csv.DictReader(file)}
    assert written == rows(home, "from_standard")


def test_a_quote_that_is_never_closed_is_a_rejection_and_no_half_value(home: Home) -> None:
    assert rows(home, "from_open") == {2: "c", 3: "d", 6: "fine"}
    assert rejected(home, "from_open") == {
        "@open.csv#2": '1,"a',
        "@open.csv#3": "b",
        "@open.csv#6": '4,5" nail',
        "@open.csv#7": '5,"x"y',
    }


def test_returns_end_lines_and_stay_inside_of_quotes(home: Home) -> None:
    assert rows(home, "from_windows") == {1: "plain", 2: "two\r\nlines"}
    assert behind(home, "from_windows", 2)["values"] == {"k": "2", "v": "two\r\nlines"}
    assert rejected(home, "from_windows") == {"@windows.csv#6": "3,twice\r"}


def test_the_dialect_of_spark_is_an_option(home: Home) -> None:
    assert rows(home, "from_spark") == {1: 'say "hi" now', 3: "back\\slash"}
    assert rejected(home, "from_spark") == {"@spark.csv#3": '2,"say ""hi"" now"'}
    assert behind(home, "from_spark", 1)["values"]["v"] == 'say "hi" now'


def test_why_shows_what_the_run_read_and_where_it_stands(home: Home) -> None:
    for key, value in rows(home, "from_standard").items():
        assert behind(home, "from_standard", key)["values"] == {"k": str(key), "v": value or ""}
    record = behind(home, "from_standard", 3)
    assert (record["file"], record["line"], record["last_line"]) == ("data/standard.csv", 4, 5)
    assert "data/standard.csv:4-5" in home.printed("why", "from_standard", "k=3").stdout


def home_is_empty(made: Home) -> bool:
    return made.ok("ls")[0].get("version") is None


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ("{}", "k,v,v\n1,a,b\n", "the header has 2 columns 'v'"),
        ("{}", '1,"a\n2,b\n', "the first line is not a header: '1,\"a'"),
        ("{'encoding': 'latin1'}", "k,v\n1,a\n", "option 'encoding' is not supported"),
        ("{'comment': '#'}", "k,v\n1,a\n", "option 'comment' could lose records"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_made(
    homes: Homes, options: str, text: str, message: str
) -> None:
    made = homes.make(Home, "refused").pipeline(
        "import tallyman as tm\n"
        f'tm.source("s", "data/s.csv", format="csv", schema="k int, v string", options={options})\n'
        "@tm.asset\ndef a(s):\n    return s\n"
    )
    (made.path / "data").mkdir()
    (made.path / "data" / "s.csv").write_text(text)
    reply = made.tallyman("run")
    assert reply.code in (1, 2), str(reply)
    assert message in str(reply).replace('\\"', '"')
    assert home_is_empty(made)
