"""Files as people have them: nothing is misread silently, and what cannot be read is named."""
# ruff: noqa: DTZ001, E501 -- times without a zone, pipelines as users write them

import bz2
import gzip
import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("drift", "data/drift", format="parquet", key="id")
tm.source("asked", "data/drift", format="parquet", key="id", schema="id decimal(20,0), n string, f double")
tm.source("nanos", "data/nanos", format="parquet", key="id")
tm.source("counts", "data/nanos/a.parquet", format="parquet", key="id", schema="id bigint, t bigint")
tm.source("linked", "data/linked", schema="id string, v int", key="id")
tm.source("packed", "data/packed", schema="id string, v int", key="id")
tm.source("packed_csv", "data/packed_csv", format="csv", schema="id string, v int", key="id")
tm.source("far", "data/far.json", schema="id string, d date", key="id")
tm.source("far_lines", "data/far.json", schema="id string, d date, l array<struct<t:timestamp>>", key=["id", "d"])
tm.source("far_csv", "data/far.csv", format="csv", schema="id string, d date, t timestamp, x int", key="id")
tm.source("far_parquet", "data/far.parquet", format="parquet", key="id")

"""
SOURCES = (
    "drift", "asked", "nanos", "counts", "linked", "packed", "packed_csv", "far", "far_lines",
    "far_csv", "far_parquet",
)  # fmt: skip
ASSETS = "".join(f"@tm.asset(**ANY)\ndef of_{s}({s}):\n    return {s}\n\n" for s in SOURCES)
PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}


def packed_by_arrow(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACKERS[".zst"] = packed_by_arrow


def write(home: Home, name: str, table: pa.Table) -> None:
    place = home.path / "data" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, place)


def put(home: Home, name: str, content: bytes) -> Path:
    place = home.path / "data" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "files").pipeline(PIPELINE + ASSETS)
    narrow = {"id": pa.array([1, 2], pa.int32()), "f": pa.array([1.5, None], pa.float32())}
    write(made, "drift/a.parquet", pa.table(narrow))
    write(made, "drift/b.parquet", pa.table({"id": [3, 2**40], "n": ["x", "y"], "f": [0.1, 2.0]}))
    write(made, "drift/c.parquet", pa.table({"id": pa.array([5], pa.int16()), "n": pa.nulls(1)}))
    fine = pa.array([1_600_000_000_000_001_000, 1_600_000_000_000_001_500], pa.timestamp("ns"))
    write(made, "nanos/a.parquet", pa.table({"id": [1, 2], "t": fine}))
    late = pa.array([datetime(3000, 1, 1)], pa.timestamp("us"))  # not in nanoseconds
    write(made, "nanos/b.parquet", pa.table({"id": [3], "t": late}))
    put(made, "linked/a.json", b'{"id": "a", "v": 1}\n')
    put(made, "elsewhere/b.json", b'{"id": "b", "v": 2}\n')
    (made.path / "data/linked/sub").symlink_to("../elsewhere")
    (made.path / "data/elsewhere/back").symlink_to("../linked")
    for n, (ending, pack) in enumerate(PACKERS.items()):
        two = [f'{{"id": "{ending[1:]}{i}", "v": {n + i}}}\n'.encode() for i in (0, 1)]
        put(made, f"packed/part.json{ending}", pack(two[0]) + pack(two[1]))
        lines = "".join(f"{ending[1:]}{i},{n + i}\r\n" for i in (0, 1))
        put(made, f"packed_csv/part.csv{ending}", pack(f"id,v\r\n{lines}".encode()))
    put(made, "packed/plain.json", b'{"id": "plain", "v": 9}\n')
    far = ("10000-01-01", "-0044-03-15", "9999-12-31", "0001-01-01", "no date")
    records: list[dict[str, Any]] = [{"id": f"k{n}", "d": text} for n, text in enumerate(far)]
    records.append({"id": "k5", "d": "2026-01-01", "l": [{"t": "12345-01-01 00:00:00"}]})
    put(made, "far.json", "".join(json.dumps(r) + "\n" for r in records).encode())
    rows = [f"k{n},{text},2026-01-01 00:00:00,1" for n, text in enumerate(far)]
    rows += ["k5,2026-01-01,10000-01-01 00:00:00,1", "k6,10000-01-01,2026-01-01 00:00:00,one"]
    put(made, "far.csv", "\n".join(["id,d,t,x", *rows, ""]).encode())
    days = pa.array([2_932_897, -735_000, 2_932_896, -719_162], pa.date32())
    write(made, "far.parquet", pa.table({"id": ["k0", "k1", "k2", "k3"], "d": days}))
    made.ok("run")
    return made


def folder(home: Home) -> Path:
    [found] = (home.path / "runs").iterdir()
    return found


def account(home: Home, asset: str) -> dict[str, Any]:
    return json.loads((folder(home) / asset / "ledger.json").read_text())


def origin(home: Home, asset: str, row: str) -> dict[str, Any]:
    """The only record that a row was made of."""
    [hop] = home.ok("why", asset, row)["hops"]
    [record] = hop["inputs"][0]["records"]
    return record


def rejected(home: Home, asset: str) -> list[tuple[str, str, str, str]]:
    files = sorted((folder(home) / asset / "errors").rglob("*.jsonl"))
    letters = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted((r["source_key"], r["error_type"], r["expected"], r["actual"]) for r in letters)


def test_columns_of_all_files_are_read_and_missing_ones_are_counted(home: Home) -> None:
    rows = sorted(home.rows("of_drift"))
    assert rows == [
        (1, 1.5, None),
        (2, None, None),
        (3, 0.1, "x"),
        (5, None, None),
        (2**40, 2.0, "y"),
    ]
    door = account(home, "of_drift")["input_accounting"]
    assert door["missing_columns"] == {"drift": {"n": 2, "f": 1}}
    assert "missing_columns" not in account(home, "of_linked")["input_accounting"]
    noted = "NULL for columns that files of drift lack, records: n in 2, f in 1"
    assert noted in home.printed("report").stdout
    [shown] = [made for made in home.ok("show")["assets"] if made["name"] == "of_drift"]
    assert shown["missing_columns"] == door["missing_columns"]


def test_a_declared_schema_wins_and_wider_types_are_lossless(home: Home) -> None:
    rows = {int(str(row[0])): row[1:] for row in home.rows("of_asked")}
    assert rows == {
        1: (None, 1.5),
        2: (None, None),
        3: ("x", 0.1),
        5: (None, None),
        2**40: ("y", 2.0),
    }


def test_why_and_where_answer_on_files_with_different_columns(home: Home) -> None:
    for key, file, n in (("3", "b.parquet", "x"), ("5", "c.parquet", None)):
        record = origin(home, "of_asked", f"id={key}")
        assert record["file"].endswith(file)
        assert record["values"]["n"] == n
    found = home.ok("where", "drift", f"id={2**40}")
    assert found["records"][0]["values"]["f"] == 2.0
    assert found["records"][0]["file"] == "data/drift/b.parquet"


def test_nanoseconds_are_read_where_they_are_whole_microseconds(home: Home) -> None:
    assert sorted(home.rows("of_nanos")) == [
        (1, datetime(2020, 9, 13, 12, 26, 40, 1)),
        (3, datetime(3000, 1, 1)),
    ]
    assert rejected(home, "of_nanos") == [
        (
            "2",
            "type_cast_error",
            "timestamp_ntz in whole microseconds",
            "2020-09-13 12:26:40.000001500",
        )
    ]
    assert sorted(home.rows("of_counts")) == [
        (1, 1_600_000_000_000_001_000),
        (2, 1_600_000_000_000_001_500),
    ]
    assert home.ok("where", "nanos", "id=3")["records"][0]["values"]["t"] == "3000-01-01 00:00:00"


def test_a_linked_folder_is_read_and_its_files_are_named(home: Home) -> None:
    assert sorted(home.rows("of_linked")) == [("a", 1), ("b", 2)]
    found = home.ok("where", "linked", "id=b")
    assert found["records"][0]["file"] == "data/linked/sub/b.json"


def test_compressed_files_are_read_and_found_again(home: Home) -> None:
    wanted = [(f"{e[1:]}{i}", n + i) for n, e in enumerate(PACKERS) for i in (0, 1)]
    assert sorted(home.rows("of_packed")) == sorted([*wanted, ("plain", 9)])
    assert sorted(home.rows("of_packed_csv")) == sorted(wanted)
    for ending in PACKERS:
        key = f"{ending[1:]}1"
        record = origin(home, "of_packed", f"id={key}")
        assert (record["file"], record["line"]) == (f"data/packed/part.json{ending}", 2)
        found = home.ok("where", "packed_csv", f"id={key}")["records"][0]
        assert (found["file"], found["line"]) == (f"data/packed_csv/part.csv{ending}", 3)


YEARS = "date in the years 1 to 9999"


def test_years_that_no_reader_can_hold_are_rejected_at_the_door(home: Home) -> None:
    inside = [("k2", date(9999, 12, 31)), ("k3", date(1, 1, 1))]
    far = [("k0", "+10000-01-01"), ("k1", "-0044-03-15")]
    by_year = [(key, "type_cast_error", YEARS, shown) for key, shown in far]
    misread = ("k4", "type_cast_error", "date", "no date")
    assert rejected(home, "of_far") == [*by_year, misread]
    assert sorted(home.rows("of_far")) == [*inside, ("k5", date(2026, 1, 1))]
    assert sorted(row[:2] for row in home.rows("of_far_csv")) == inside
    time = ("k5", "type_cast_error", "timestamp in the years 1 to 9999", "+10000-01-01 00:00:00")
    both = [
        ("k6", "type_cast_error", YEARS, "+10000-01-01"),
        ("k6", "type_cast_error", "int", "one"),
    ]
    assert rejected(home, "of_far_csv") == [*by_year, misread, time, *both]
    lines = rejected(home, "of_far_lines")
    assert [row[2:] for row in lines if "array" in row[2]] == [
        ("array<struct<t:timestamp>> in the years 1 to 9999", "[{+12345-01-01 00:00:00}]")
    ]
    assert sorted(row[:2] for row in home.rows("of_far_lines")) == inside
    assert [row[0] for row in rejected(home, "of_far_parquet")] == ["k0", "k1"]
    assert sorted(home.rows("of_far_parquet")) == inside
    assert home.outside("of_far") is not None


def test_the_run_is_verified_and_every_number_is_there(home: Home) -> None:
    assert home.ok("verify", folder(home).name.rpartition("_")[2], "--exact")
    for name in SOURCES:
        assert account(home, f"of_{name}")["verification"]["accounting_balanced"]


BROKEN = """\
import tallyman as tm

tm.source("lines", "data/lines", schema="id string, v int", key="id")
tm.source("days", "data/days.json", schema="id string, d date", key="id")

@tm.asset
def read(lines):
    return lines

@tm.asset(key="id")
def later(days):
    return days.withColumn("next", "date_add(d, 1)").withColumn("both", "array(next)")
"""


def test_a_broken_file_is_named_and_the_run_completes_when_it_is_repaired(homes: Homes) -> None:
    home = homes.make(Home, "broken").pipeline(BROKEN)
    put(home, "days.json", b'{"id": "a", "d": "2026-01-01"}\n')
    put(home, "lines/a.json", b'{"id": "a", "v": 1}\n')
    many = "".join(f'{{"id": "k{n}", "v": {n * 7919 % 1000}}}\n' for n in range(900)).encode()
    link = home.path / "data" / "lines" / "b.json.gz"
    link.symlink_to("nowhere")
    reply = home.tallyman("run", "read")
    [error] = [asset["error"] for asset in reply.json["assets"]]
    assert (error["code"], reply.code) == ("input_unreadable", 1)
    assert "'b.json.gz'" in error["message"]
    assert home.status(reply.json["run_id"]) == "failed"
    link.unlink()
    for content, reason in (
        (gzip.compress(many)[:-1_000], "nexpected end"),
        (b"no gzip at all\n", "its name ends in .gz, but its content is not gzip"),
        (bz2.compress(many), "it is bzip2"),
    ):
        put(home, "lines/b.json.gz", content)
        reply = home.tallyman("run", "read")
        assert reply.code == 1
        [error] = [asset["error"] for asset in reply.json["assets"]]
        assert error["code"] == "input_unreadable", error
        assert "file 'b.json.gz' of input 'lines' cannot be read" in error["message"]
        assert reason in error["message"]
        assert "resume" in error["hint"]
        assert home.status(reply.json["run_id"]) == "failed"
    put(home, "lines/b.json.gz", gzip.compress(many))
    assert home.ok("resume", reply.json["run_id"])["status"] == "success"
    assert len(home.rows("read")) == 901


def test_a_year_that_a_step_makes_is_named_with_its_column_and_row(homes: Homes) -> None:
    home = homes.make(Home, "years").pipeline(BROKEN)
    put(home, "days.json", b'{"id": "a", "d": "9999-12-31"}\n{"id": "b", "d": "2026-01-01"}\n')
    reply = home.tallyman("run", "later")
    assert reply.code == 1
    [asset] = reply.json["assets"]
    assert asset["error"]["code"] == "year_out_of_range"
    assert "1 row(s) have a year outside 1 to 9999 in column 'both'" in asset["error"]["message"]
    assert "the row with id=a has [+10000-01-01]" in asset["error"]["message"]
    assert home.status(reply.json["run_id"]) == "failed"
    assert home.heads() == {"later": 0}
    home.edit('"date_add(d, 1)"', '"d"')
    assert home.ok("run", "later")["status"] == "success"


DAMAGED = """\
import tallyman as tm

tm.source("rows", "data/rows", format="parquet", key="id", schema="id bigint, v string")

@tm.asset
def read(rows):
    return rows.filter("v <> ''")
"""


def test_a_parquet_file_damaged_inside_is_named_in_the_middle_of_a_run(homes: Homes) -> None:
    home = homes.make(Home, "damaged").pipeline(DAMAGED)
    for name in ("a", "b"):
        values = [f"{name}{n * 7919 % 65_521:x}" for n in range(3_000)]
        write(home, f"rows/{name}.parquet", pa.table({"id": list(range(3_000)), "v": values}))
    place = home.path / "data/rows/b.parquet"
    content = bytearray(sound := place.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2_000] = bytes(2_000)
    place.write_bytes(bytes(content))
    reply = home.tallyman("run")
    assert reply.code == 1, str(reply)
    [asset] = reply.json["assets"]
    assert asset["error"]["code"] == "input_unreadable", asset
    assert "file 'b.parquet' of input 'rows' cannot be read" in asset["error"]["message"]
    assert "Guard" not in asset["error"]["hint"]
    place.write_bytes(sound)
    assert home.ok("resume", reply.json["run_id"])["status"] == "success"
