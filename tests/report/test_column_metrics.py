"""Columns of text inputs are measured with the scan of the door: in the report and in lineage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lineage_events.validation import valid
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes

SCHEMA = (
    "id string, n int, price decimal(6,2), share double, day date, flag boolean, "
    "secret int, tags array<string>"
)
FLAT = SCHEMA.removesuffix(", tags array<string>")
PIPELINE = f"""\
import tallyman as tm

ANY = dict(key="id", thresholds="absolute=100,percentage=0.9")
tm.source("lines", path="data/lines.jsonl", format="json", key="id", schema="{SCHEMA}")
tm.source("table", path="data/table.csv", format="csv", key="id", schema="{FLAT}")


@tm.asset(**ANY)
def of_lines(lines):
    return lines.filter("n > 2", reason="small")


@tm.asset(**ANY)
def of_table(table):
    return table.filter("n > 2", reason="small")
"""
ROWS: list[dict[str, Any]] = [
    {
        "id": f"k{n}",
        "n": n if n % 4 else None,
        "price": f"{n - 3}.50",
        "share": n / 8,
        "day": f"2026-01-{1 + n % 9:02}",
        "flag": n % 2 == 0,
        "secret": n,
        "tags": None if n % 5 else ["a"],
    }
    for n in range(40)
]
WRONG = {**ROWS[1], "id": "wrong", "n": "many", "price": "-999.00"}
"""Its n does not fit: nothing of the record is measured."""
EXPECTED = {
    "id": {"nulls": 0, "approx_distinct": 40, "min": None, "max": None},
    "n": {"nulls": 10, "approx_distinct": 30, "min": 1, "max": 39},
    "price": {"nulls": 0, "approx_distinct": 40, "min": "-3.50", "max": "36.50"},
    "share": {"nulls": 0, "approx_distinct": 40, "min": 0.0, "max": 39 / 8},
    "day": {"nulls": 0, "approx_distinct": 9, "min": "2026-01-01", "max": "2026-01-09"},
    "flag": {"nulls": 0, "approx_distinct": 2, "min": None, "max": None},
}
NESTED = {"nulls": 32, "approx_distinct": None, "min": None, "max": None}
SETTINGS = "trace:\n  redact: [secret]\ncolumn_metrics: {}\n"


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "metrics", SETTINGS.format("true") + INTERPRETED)
    made.pipeline(PIPELINE).data("lines.jsonl", *ROWS, WRONG)
    names = list(ROWS[0])[:-1]
    listed = [",".join(names), *(",".join(_cell(row[n]) for n in names) for row in [*ROWS, WRONG])]
    (made.path / "data" / "table.csv").write_text("\n".join(listed) + "\n")
    made.ok("run", "--run-id", "first")
    return made


def _cell(value: object) -> str:
    return "" if value is None else str(value).lower()


def measured(home: Home, run: str) -> dict[str, Any]:
    targets = [asset["targets"][0] for asset in home.ok("report", run)["assets"]]
    return {name: one for target in targets for name, one in target["column_metrics"].items()}


def near(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """The numbers of distinct values are estimates: within a tenth."""
    rest = {name: {**one, "approx_distinct": 0} for name, one in found.items()}
    counts = [(found[n]["approx_distinct"], expected[n]["approx_distinct"]) for n in expected]
    return rest == {name: {**one, "approx_distinct": 0} for name, one in expected.items()} and all(
        got == wanted or abs(got - wanted) <= wanted / 10 for got, wanted in counts
    )


def test_the_folder_and_the_report_have_every_column_but_redacted_ones(home: Home) -> None:
    written = json.loads((home.folder("first") / "processing_report.json").read_text())
    found = {k: v for one in written["assets"] for k, v in one["column_metrics"].items()}
    assert near(found["lines"], {**EXPECTED, "tags": NESTED}), found
    assert near(found["table"], EXPECTED), found
    without_bounds = {name: {**one, "min": None, "max": None} for name, one in EXPECTED.items()}
    assert near(measured(home, "first")["table"], without_bounds), "something is redacted"
    text = home.printed("report", "first").stdout
    assert "column      table.n   10 NULL, about " in text
    page = home.path / "report.html"
    assert home.printed("report", "first", "--html", "-o", str(page)).code == 0
    assert "Columns of inputs" in page.read_text()


def test_lineage_has_counts_and_the_range_of_numbers(home: Home) -> None:
    lines = (home.folder("first") / "lineage" / "job_events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    for event in events:
        valid(event)
    ended = {e["job"]["name"]: e for e in events if e["eventType"] == "COMPLETE"}
    [given] = ended["metrics.of_table"]["inputs"]
    columns = given["inputFacets"]["dataQualityMetrics"]["columnMetrics"]
    assert set(columns) == set(EXPECTED)
    assert (columns["n"]["nullCount"], columns["n"]["min"], columns["n"]["max"]) == (10, 1, 39)
    assert columns["price"]["min"] == -3.5
    assert columns["flag"]["distinctCount"] == 2
    assert "min" not in columns["day"], "a date is a value of a row"


def test_the_next_run_recalls_them_and_without_the_setting_nothing_is_measured(home: Home) -> None:
    before = measured(home, "first")
    home.ok("run", "--force", "--run-id", "again")
    assert measured(home, "again") == before
    settings = home.path / "tallyman.yaml"
    on, off = SETTINGS.format("true"), SETTINGS.format("false")
    settings.write_text(settings.read_text().replace(on, off))
    ran = home.ok("run", "of_table", "--force", "--run-id", "without")
    assert "column_metrics" not in ran["assets"][0]
    settings.write_text(settings.read_text().replace(off, SETTINGS.format("some")))
    refused = home.tallyman("ls")
    assert refused.code == 2
    assert "column_metrics: expected true or false, not 'some'" in str(refused)
    settings.write_text(settings.read_text().replace(SETTINGS.format("some"), on))
