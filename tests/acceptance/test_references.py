"""A reference has no ledger, but an account: what was read of it, and who found nothing in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

flights = tm.source("flights", "data/flights.csv", format="csv", key="id",
                    schema="id string, tail string, carrier string")
planes = tm.source("planes", "data/planes.csv", format="csv", key="tailnum",
                   schema="tailnum string, seats int")


@tm.asset(key="id")
def seated(flights, planes):
    return flights.join(planes, "tail = tailnum", how="left", name="plane")
"""
SHARE = PIPELINE.replace(', name="plane"', ', max_unmatched="5%", name="plane"')
NUMBER = PIPELINE.replace(', name="plane"', ', max_unmatched=9, name="plane"')
KNOWN = """

@tm.asset(key="tailnum")
def known(planes):
    return planes.filter("seats > 900")
"""
FLIGHTS, PLANES = 400, 120
STEP = {"step": "plane", "name": "planes", "of_records": True}


class Airline(Home):
    """Every tenth flight is by a plane that nobody knows."""

    def flights(self, count: int = FLIGHTS) -> None:
        tails = (f"N{n % PLANES}" if n % 10 else "" for n in range(count))
        lines = [f"f{n},{tail},c{n % 3}" for n, tail in enumerate(tails)]
        self.csv("flights", "id,tail,carrier", *lines)

    def planes(self, count: int = PLANES, *more: str) -> None:
        self.csv("planes", "tailnum,seats", *(f"N{n},{100 + n}" for n in range(count)), *more)

    def csv(self, name: str, *lines: str) -> None:
        (self.path / "data").mkdir(exist_ok=True)
        (self.path / f"data/{name}.csv").write_text("".join(f"{line}\n" for line in lines))

    def published(self) -> dict[str, int]:
        return {name: version for name, version in self.heads().items() if version}

    def stops(self, *words: str, exit_code: int = 3, asset: str = "seated") -> dict[str, Any]:
        """The error of an asset that is not made; readers keep what they have."""
        before = self.published()
        reply = self.tallyman("run", asset, *words)
        assert reply.code == exit_code, str(reply)
        assert self.published() == before
        [made] = reply.json["assets"]
        return dict(made["error"])


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], Airline]:
    return lambda: homes.make(Airline, "references").pipeline(PIPELINE)


@pytest.fixture
def home(new_home: Callable[[], Airline]) -> Airline:
    made = new_home()
    made.flights()
    made.planes()
    return made


def references(made: dict[str, Any]) -> list[dict[str, Any]]:
    return list(made["references"])


def test_a_reference_that_is_empty_or_only_a_header_makes_nothing(home: Airline) -> None:
    home.ok("run")
    for lines in ((), ("tailnum,seats",), ("", "")):
        home.csv("planes", *lines)
        error = home.stops(exit_code=1 if lines == ("", "") else 3)
        if lines != ("", ""):
            assert error["code"] == "empty_input"
            assert error["message"] == "seated: reference 'planes' has no records."
    home.planes()
    assert home.ok("run", "--force")["assets"][0]["rows_out"] == FLIGHTS


def test_an_empty_reference_is_read_where_its_source_or_the_asset_allows_it(home: Airline) -> None:
    home.csv("planes", "tailnum,seats")
    home.edit(
        'schema="tailnum string, seats int")',
        'schema="tailnum string, seats int", on_empty="warn")',
    )
    [made] = home.ok("run")["assets"]
    assert made["input_warnings"] == ["reference 'planes' has no records"]
    assert references(made) == [
        {**STEP, "rows": 0, "looked_up": 400, "unmatched": 400, "limit": None}
    ]
    home.edit('on_empty="warn"', 'on_empty="allow"')
    [made] = home.ok("run", "--force", "seated")["assets"]
    assert "input_warnings" not in made
    home.edit(', on_empty="allow"', "").edit(
        'key="id")\ndef', 'key="id", thresholds={"on_empty": "allow"})\ndef'
    )
    [made] = home.ok("run", "--force", "seated")["assets"]
    assert made["status"] == "success"


def test_a_reference_with_one_file_that_is_cut_off_at_its_header_halts(home: Airline) -> None:
    (home.path / "data/planes").mkdir()
    (home.path / "data/planes.csv").rename(home.path / "data/planes/a.csv")
    (home.path / "data/planes/b.csv").write_text("")
    home.edit("data/planes.csv", "data/planes/*.csv")
    message = home.stops()["message"]
    assert message == "seated: reference 'planes' has files without a header: b.csv."


def test_an_upstream_asset_that_is_empty_halts_its_reader_as_a_reference(home: Airline) -> None:
    home.pipeline(
        PIPELINE.replace("def seated(flights, planes)", "def seated(flights, known)").replace(
            "join(planes", "join(known"
        )
        + KNOWN
    )
    home.ok("run", "known")
    assert home.stops()["message"] == "seated: reference 'known' has no records."


def test_a_join_that_keeps_unmatched_rows_counts_them_everywhere(home: Airline) -> None:
    found = {**STEP, "rows": PLANES, "looked_up": FLIGHTS, "unmatched": 40, "limit": None}
    reply = home.tallyman("run", "--run-id", "counted")
    assert references(reply.json["assets"][0]) == [found]
    ledger = json.loads((home.folder("counted") / "seated" / "ledger.json").read_text())
    assert ledger["references"] == [found]
    assert references(home.ok("show", "counted")["assets"][0]) == [found]
    [proof] = home.ok("report", "counted")["assets"][0]["proofs"]
    text = (
        "planes, looked up in plane: 120 records read, 40 of 400 records (10.0 %) without a match"
    )
    assert proof["references"] == [found | {"text": text}]
    home.tallyman("report", "counted", "--html", "-o", "page.html")
    assert text in (home.path / "page.html").read_text()
    for words in (("show",), ("report",), ("run", "--force", "seated")):
        reply = home.printed(*words)
        assert text in reply.stdout + reply.stderr, words


def test_what_a_join_did_not_find_is_counted_at_every_level_and_in_working_sets(
    home: Airline,
) -> None:
    home.pipeline(
        PIPELINE
        + """

@tm.asset(key="id")
def filtered(flights, planes):
    few = flights.filter("carrier <> 'c0'")
    return few.join(planes, "tail = tailnum", unmatched="filter", name="plane")

@tm.asset(key="tail")
def grouped(flights, planes):
    tails = flights.groupBy("tail").agg(n="count(*)")
    return tails.join(planes, "tail = tailnum", how="left", name="plane")

@tm.asset(key="id", evidence="digest", unique=False)
def expanded(flights, planes):
    both = flights.filter("carrier <> 'c0'", reason="not theirs")
    lookup = dict(how="left", fanout="expand", name="plane")
    return both.join(planes, "tail = tailnum", **lookup)

@tm.asset(key="id")
def updated(flights, planes):
    return flights.withColumn("seats", "0").update(
        {"seats": "p.seats"}, where="carrier = 'c1'", name="plane",
        join={"p": (planes, "tail = tailnum")})

@tm.asset(key="id")
def both(flights, planes):
    one, other = flights.filter("carrier = 'c0'"), flights.filter("carrier <> 'c0'")
    one = one.join(planes, "tail = tailnum", how="left", name="plane")
    return one.union(other.join(planes, "tail = tailnum", how="left", name="other"))
"""
    )
    made = {one["name"]: references(one) for one in home.ok("run")["assets"]}
    assert [(one["looked_up"], one["unmatched"]) for one in made["filtered"]] == [(None, None)]
    few = [n for n in range(FLIGHTS) if n % 3]
    lost = [n for n in few if n % 10 == 0]
    [grouped] = made["grouped"]
    assert (grouped["looked_up"], grouped["unmatched"], grouped["of_records"]) == (109, 1, False)
    [expanded] = made["expanded"]
    assert (expanded["looked_up"], expanded["unmatched"]) == (len(few), len(lost))
    chosen = range(1, FLIGHTS, 3)
    [updated] = made["updated"]
    missed = sum(n % 10 == 0 for n in chosen)
    assert (updated["looked_up"], updated["unmatched"]) == (len(chosen), missed)
    one, other = made["both"]
    assert one["looked_up"] + other["looked_up"] == FLIGHTS
    assert one["unmatched"] + other["unmatched"] == 40


def test_more_unmatched_records_than_allowed_halt_the_asset(home: Airline) -> None:
    home.ok("run")
    for pipeline, limit in ((SHARE, "5%"), (NUMBER, "9")):
        home.pipeline(pipeline)
        error = home.stops()
        assert error["code"] == "unmatched_records"
        said = "seated, step plane: 40 of 400 records (10.0 %) without a match in 'planes'"
        assert error["message"] == f"{said}; max_unmatched is {limit}."
    home.pipeline(SHARE.replace("5%", "10%"))
    assert home.ok("run")["assets"][0]["references"][0]["limit"] == "10%"


@pytest.mark.parametrize("limit", ["0.05", '"5"+"%%"', "True", "-1"])
def test_a_limit_that_is_neither_a_share_nor_a_number_is_refused(home: Airline, limit: str) -> None:
    home.pipeline(SHARE.replace('"5%"', limit))
    reply = home.tallyman("check", "--no-spark")
    assert reply.code == 2
    assert "max_unmatched is a share" in str(reply.json["problems"])


def test_an_input_that_lost_more_than_half_halts_until_that_is_accepted(home: Airline) -> None:
    home.ok("run")
    for shrink, name, left in ((home.planes, "planes", 59), (home.flights, "flights", 199)):
        shrink(left)
        error = home.stops()
        assert error["code"] == "input_shrank"
        before = PLANES if name == "planes" else FLIGHTS
        assert (
            f"input '{name}' has {left} records, less than half of the {before}" in error["message"]
        )
        assert f"--accept-shrink {name}" in error["hint"]
        done = home.ok("run", "--accept-shrink", name, "--run-id", f"fewer-{name}")
        assert done["published"]
        [made] = done["assets"]
        assert "less than half" in made["input_warnings"][0]
        assert home.ok("show", f"fewer-{name}")["accept_shrink"] == [name]
        assert f"fewer records of {name}" in home.printed("show", f"fewer-{name}").stdout
        [[details, actor]] = home.query(
            "SELECT details, actor_id FROM audit_log "
            "WHERE event_type = 'run.started' AND resource = %s",
            f"fewer-{name}",
        )
        assert details["options"]["accept_shrink"] == [name]  # type: ignore[index]
        assert actor
        assert home.ok("run", "--force", "seated")["status"] == "success"  # the new number counts


def test_inputs_that_shrink_less_or_were_small_do_not_halt(home: Airline) -> None:
    home.ok("run")
    home.planes(60)
    home.flights(200)
    home.ok("run")
    home.planes(1)  # 60 are too few to be compared
    home.ok("run")


def test_a_source_or_an_asset_may_say_that_shrinking_is_normal(home: Airline) -> None:
    home.ok("run")
    home.planes(20)
    home.edit('seats int")', 'seats int", on_shrink="warn")')
    [made] = home.ok("run")["assets"]
    assert "less than half" in made["input_warnings"][0]
    home.flights(50)
    home.edit('key="id")\ndef', 'key="id", thresholds={"on_shrink": "allow"})\ndef')
    [made] = home.ok("run")["assets"]
    assert "input_warnings" not in made


def test_only_inputs_that_the_run_reads_can_be_accepted(home: Airline) -> None:
    reply = home.tallyman("run", "--accept-shrink", "plane")
    assert reply.code == 2
    assert reply.json["error"]["message"] == "there is no input 'plane'. Did you mean 'planes'?"


PARTS = """\
import tallyman as tm

raw = tm.source("raw", path="data/{partition}.jsonl", format="json", key="id",
                schema="id string, day date")
days = tm.daily("day", start="2025-01-01")


@tm.asset(key="id", partitioned_by=days)
def daily(raw):
    return raw


@tm.asset(key="id", update_strategy="append", unique_key="id")
def log(feed):
    return feed


tm.source("feed", path="data/feed.jsonl", schema="id string", key="id")
"""


def test_partitions_and_deliveries_that_are_appended_are_not_compared_with_others(
    new_home: Callable[[], Airline],
) -> None:
    home = new_home().pipeline(PARTS)

    def delivered(day: str, count: int) -> None:
        home.data(f"{day}.jsonl", *({"id": f"{day}{n}", "day": day} for n in range(count)))

    delivered("2025-01-01", 300)
    delivered("2025-01-02", 20)
    days = ("--from", "2025-01-01", "--to", "2025-01-02")
    home.ok("backfill", "daily", *days)
    delivered("2025-01-01", 100)
    error = home.stops("-p", "2025-01-01", asset="daily")
    assert "has 100 records, less than half of the 300" in error["message"]
    home.ok("backfill", "daily", *days, "--accept-shrink", "raw")
    for count in (300, 10):
        home.data("feed.jsonl", *({"id": f"{count}-{n}"} for n in range(count)))
        home.ok("run", "log")
    assert len(home.rows("log")) == 310


def test_a_rollback_brings_the_earlier_numbers_back(home: Airline) -> None:
    home.ok("run")
    home.planes(20)
    home.ok("run", "--accept-shrink", "planes")
    home.ok("rollback", "seated", "--to", "1")
    home.planes(25)
    assert "less than half of the 120" in home.stops()["message"]


def test_a_bad_record_of_a_reference_is_named_with_file_line_column_and_value(
    home: Airline,
) -> None:
    home.planes(PLANES, "N900,many", "N901")
    error = home.stops(exit_code=1)
    assert error["code"] == "reference_rejected"
    assert error["message"] == (
        "2 record(s) of reference 'planes' cannot be read: planes.csv, line 122: column seats: "
        "'many' is not int; planes.csv, line 123: 'N901' is not 2 fields"
    )
    [asset] = home.path.glob("runs/*/seated")
    assert not list(asset.rglob("*.parquet"))


def test_a_repeated_key_of_a_reference_is_named_before_the_asset_is_evaluated(
    home: Airline,
) -> None:
    home.planes(PLANES, "N7,1", "N7,2", "N900,1", "N900,1")
    error = home.stops(exit_code=1)
    assert error["code"] == "join_fan_out"
    assert error["message"] == (
        "seated, step plane: 2 key(s) are on more than one row of reference 'planes': "
        "tailnum = N7 (3 rows), tailnum = N900 (2 rows)."
    )
    [asset] = home.path.glob("runs/*/seated")
    assert not list(asset.rglob("*.parquet"))
    home.edit("join(planes", 'join(planes.dropDuplicates(["tailnum"])')
    home.ok("run")


def test_keys_without_a_value_and_names_on_both_sides_are_no_repetition(home: Airline) -> None:
    """NULL matches nothing. Where both sides have both columns, those of the rows decide."""
    home.csv("planes", "tailnum,seats,tail", "N1,1,same", "N2,2,same", ",3,same", ",4,same")
    home.edit("tailnum string, seats int", "tailnum string, seats int, tail string")
    home.edit(
        'join(planes, "tail = tailnum"',
        'drop("carrier").join(planes.withColumnRenamed("tail", "other"), "tail = tailnum"',
    )
    home.ok("run")
