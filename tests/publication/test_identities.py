"""Things that look alike are not the same: equal rows, equal names, equal partitions, equal keys.

Each test is a sequence of commands after which readers saw, or were told, something else than was
published.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.project import Project
from tests.world.home import Home, statuses
from tests.world.homes import Homes

RAW = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id",
                schema="id string, n int, country string")
"""
GOOD = """

@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def good(raw):
    return raw.expect("positive", "n > 0").filter("n < 100")
"""
TOTAL = """

@tm.asset(key="country")
def total(good):
    return good.groupBy("country").agg(n="count(*)")
"""


@pytest.fixture
def home(homes: Homes) -> Home:
    return homes.make(Home, "alike").pipeline(RAW + GOOD + TOTAL)


def raw(home: Home, **records: int) -> None:
    countries = ["NL", "DE"]
    rows = ({"id": k, "n": n, "country": countries[abs(n) % 2]} for k, n in records.items())
    home.data("raw.jsonl", *rows)


def corrected(home: Home, run: str, **records: int) -> None:
    lines = (json.dumps({"id": k, "n": n, "country": "NL"}) for k, n in records.items())
    home.path.joinpath("fix.jsonl").write_text("".join(f"{line}\n" for line in lines))
    home.ok("rejections", "replay", run, "--asset", "good", "--with", "fix.jsonl")


def test_a_reader_of_a_repartitioned_asset_reads_the_new_partitions_alone(home: Home) -> None:
    raw(home, a=1, b=2, c=3)
    home.ok("run")
    split = 'key="id", partitioned_by=tm.partitions("country", ["NL", "DE"]), '
    home.pipeline(RAW + GOOD.replace('key="id", ', split) + TOTAL)
    home.ok("plan")
    home.ok("apply")
    assert len(home.rows("good")) == 3
    assert home.rows("total") == [("DE", 2), ("NL", 1)]
    assert home.ok("verify", "latest", "--exact")["verified"]

    # An apply that failed has told the registry of the new column, and changed no rows.
    home.pipeline(RAW + GOOD + TOTAL)
    home.ok("plan")
    home.ok("apply")
    home.pipeline(RAW + GOOD.replace('key="id", ', split).replace("n > 0", "n > 2") + TOTAL)
    home.edit("absolute=0,percentage=1", "absolute=1,percentage=0")
    home.ok("plan")
    assert home.tallyman("apply").code == 3
    home.edit("n > 2", "n > 0")
    home.ok("plan")
    home.ok("apply")
    assert len(home.rows("good")) == 3

    home.pipeline(RAW + GOOD + TOTAL)
    home.ok("plan")
    home.ok("apply")
    assert home.rows("total") == [("DE", 2), ("NL", 1)]


def test_a_correction_outlives_a_cleanup_after_a_result_with_equal_rows(home: Home) -> None:
    raw(home, a=1, b=-2)
    home.ok("run", "good")
    home.edit("n < 100", "n < 200")
    second = home.ok("run", "good")["run_id"]
    assert home.heads()["good"] == 1
    corrected(home, second, b=2)
    before = home.rows("good")
    assert [row[0] for row in before] == ["a", "b"]
    home.ok("cleanup", "--older-than", "0s", "--confirm")
    assert statuses(home.ok("run", "good")) == {"good": "skipped"}
    assert home.rows("good") == before

    home.ok("rollback", "good", "--to", "1")  # what was replayed is open again
    [kind] = home.ok("rejections", "ls", second)
    assert kind["open"] == 1


def test_a_reader_made_with_a_result_of_equal_rows_becomes_stale_with_them(home: Home) -> None:
    raw(home, a=1, b=2)
    home.ok("run")
    home.edit("n < 100", "n < 200")
    home.edit('n="count(*)"', 'n="count(*)", most="max(n)"')
    home.ok("run")
    assert home.heads() == {"good": 1, "total": 2}
    assert "total" in json.dumps(home.ok("where", "raw", "id=a"))
    raw(home, a=1, b=2, c=3)
    home.ok("run", "good")
    listed = {row["name"]: row for row in home.ok("ls")}
    assert listed["total"]["stale"]


def test_a_skipped_reader_is_verified_by_what_it_read(home: Home) -> None:
    raw(home, a=1, b=2)
    home.ok("run")
    home.ok("run", "good", "--force")
    assert statuses(home.ok("run")) == {"good": "skipped", "total": "skipped"}
    assert home.ok("verify", "latest", "--exact")["verified"]


def test_a_chain_without_keys_can_be_made_again(home: Home) -> None:
    home.pipeline(RAW + GOOD.replace('key="id", ', "") + TOTAL.replace('key="country"', ""))
    raw(home, a=1, b=2)
    home.ok("run")
    again = home.ok("run", "--force")
    assert statuses(again) == {"good": "success", "total": "success"}


def test_the_records_of_a_purged_version_are_not_replayed_from_another(home: Home) -> None:
    home.pipeline(
        RAW + GOOD + "\n\n@tm.asset(key='id', thresholds='absolute=0,percentage=1')\n"
        "def even(good):\n    return good.expect('even', 'n % 2 = 0')\n"
    )
    raw(home, a=1, b=2)
    first = home.ok("run")["run_id"]
    for more in (4, 6):
        raw(home, a=1, b=2, c=more)
        home.ok("run", "good")
    home.ok("purge", "good", "1", "--confirm")
    refused = home.tallyman("rejections", "replay", first, "--asset", "even")
    assert refused.code != 0
    assert "purged" in refused.json["error"]["message"]
    assert home.heads()["even"] == 1


def test_a_partition_that_is_gone_blocks_no_reader(home: Home) -> None:
    split = 'key="id", partitioned_by=tm.partitions("country", ["NL", "DE"]), '
    home.pipeline(RAW + GOOD.replace('key="id", ', split) + TOTAL)
    raw(home, a=1, b=2)
    home.ok("run", "good", "-p", "NL")
    home.ok("invalidate", "good", "-p", "NL")
    home.pipeline(RAW + GOOD + TOTAL)
    home.ok("plan")
    home.ok("apply")
    assert home.rows("total") == [("DE", 1), ("NL", 1)]


def test_a_warm_process_sees_a_column_that_a_new_file_brings(home: Home) -> None:
    home.pipeline(
        "import tallyman as tm\n\ntm.source('raw', path='data/raw', format='parquet', key='id')\n"
        "\n\n@tm.asset(key='id')\ndef good(raw):\n    return raw\n"
    )
    place = home.path / "data" / "raw"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["a"]}), place / "1.parquet")
    with Project.open(home.path) as project:
        project.run()
        pq.write_table(pa.table({"id": ["b"], "n": [2]}), place / "1.parquet")
        project.run()
    assert home.rows("good") == [("b", 2)]


def test_a_result_that_was_made_again_with_equal_rows_becomes_stale(home: Home) -> None:
    raw(home, a=1, b=2)
    home.ok("run")
    raw(home, a=3, b=4)  # other rows of good, the same of total
    assert home.ok("run")["published"] == {"good": 2}
    raw(home, a=5, b=6)
    home.ok("run", "good")
    listed = {row["name"]: row for row in home.ok("ls")}
    assert "good" in str(listed["total"]["stale"])
