"""A project of Python and YAML side by side, run by the command, edited, and moved between them."""

from __future__ import annotations

import json

import pytest

from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes

SOURCES = """\
# What comes from outside.
sources:
  raw:
    path: data/{partition}/orders.jsonl
    key: id
    schema: id string, day date, country string, amount decimal(10,2)
  countries: {path: data/countries.csv, format: csv, key: code, schema: "code string, name string"}
"""
ORDERS = """\
selectors:
  DUTCH: country = 'NL'
  LARGE: amount >= 10 AND {{DUTCH}}
assets:
  orders:
    from: raw
    key: id
    partitioned_by: {column: day, start: 2026-01-01}
    steps:
      - expect: {rule: positive, that: amount > 0}
      - filter: {where: {{LARGE}}, reason: small or abroad}
      - join: {with: countries, on: country = code}
      - withColumn:
          taxed: cast(amount * 1.21 AS decimal(10,2))
"""
IN_PYTHON = """\
import tallyman as tm


@tm.asset(key="id", partitioned_by=tm.daily("day", "2026-01-01"))
def orders(raw, countries):
    return (
        raw.expect("positive", "amount > 0")
        .filter("(amount >= 10 AND (country = 'NL'))", reason="small or abroad")
        .join(countries, "country = code")
        .withColumn("taxed", "cast(amount * 1.21 AS decimal(10,2))")
    )
"""
TOTALS = """\
import tallyman as tm


@tm.asset(key="day", partitioned_by=tm.daily("day", "2026-01-01"))
def totals(orders):
    return orders.groupBy("day", "name").agg(total="sum(taxed)")
"""
ROWS = [
    {"id": "a", "country": "NL", "amount": 10},
    {"id": "b", "country": "NL", "amount": 20},
    {"id": "c", "country": "NL", "amount": 5},
    {"id": "d", "country": "BE", "amount": 50},
    {"id": "e", "country": "NL", "amount": -1},
]
DAY = ("--partition", "2026-01-02")


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    home = homes.make(Home, "shop", f"thresholds: permissive\n{INTERPRETED}")
    lines = "".join(json.dumps({"day": "2026-01-02", **row}) + "\n" for row in ROWS)
    files = {
        "data/2026-01-02/orders.jsonl": lines,
        "data/countries.csv": "code,name\nNL,Netherlands\n",
        "pipelines/orders.yaml": SOURCES + ORDERS,
        "pipelines/totals.py": TOTALS,
    }
    for path, text in files.items():
        (home.path / path).parent.mkdir(parents=True, exist_ok=True)
        (home.path / path).write_text(text)
    return home


def _edit(home: Home, before: str, after: str) -> None:
    file = home.path / "pipelines/orders.yaml"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


def _modified(home: Home) -> list[str]:
    return [item["name"] for item in home.ok("ls", "state:modified") if item["kind"] == "asset"]


def test_a_project_in_two_languages(home: Home) -> None:
    # 1: a Python asset reads a YAML asset, and every record is accounted for
    made = {asset["name"]: asset for asset in home.ok("run", *DAY)["assets"]}
    assert [asset["status"] for asset in made.values()] == ["success", "success"]
    assert made["orders"]["records_in"] == 5
    fates = {"PASSED": 2, "FILTERED": 2, "ERROR": 1, "AGGREGATED": 0, "EXPLODED": 0}
    assert made["orders"]["fates"] == fates
    [total] = home.ok("read", "totals")
    assert total == {"day": "2026-01-02", "name": "Netherlands", "total": "36.30"}

    # 2: what means the same is not made again
    _edit(home, "# What comes from outside.\n", "")
    _edit(
        home, "{rule: positive, that: amount > 0}", "{that: 'amount>0 /* why */', rule: positive}"
    )
    _edit(home, "amount >= 10 AND {{DUTCH}}", "amount>=10 and {{ DUTCH }}")
    skipped = home.ok("run", *DAY)["assets"]
    assert [asset["status"] for asset in skipped] == ["skipped", "skipped"]

    # 3: an edit that matters is one
    _edit(home, "country = 'NL'", "country = 'BE'")
    assert _modified(home) == ["orders"]

    # 4: a mistake stops everything before anything is read
    _edit(home, "rule: positive", "rul: positive")
    reply = home.tallyman("run", *DAY)
    assert reply.code == 2
    assert [problem["where"] for problem in reply.json["error"]["problems"]] == [
        "pipelines/orders.yaml:16: assets.orders.steps[0].expect.rul",
        "pipelines/orders.yaml:16: assets.orders.steps[0].expect",
    ]

    # 5: moved to Python, it is the same asset
    (home.path / "pipelines/orders.yaml").write_text(SOURCES)
    (home.path / "pipelines/orders.py").write_text(IN_PYTHON)
    assert _modified(home) == []
