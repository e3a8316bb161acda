"""A file is loaded whole or not at all, and each row that does not fit is counted and named."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from tallyman.domain.version.table import Table
from tallyman.errors import InputMissing, InputUnreadable, KeyConflict, MutationRefused, UsageError
from tests.engine_tables.tables import KNOWS, PERSON, Shelf, insert, names

ANN = {"name": "Ann", "age": 30, "born": date(1994, 5, 1)}
BOB = {"name": "Bob", "age": None, "born": None}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "shelf", PERSON, KNOWS)
    shelf.mutate(insert("person", ANN, BOB))
    shelf.folders.clear()
    return shelf


def _file(tmp_path: Path, name: str, content: str) -> Path:
    path = tmp_path / name
    path.write_text(content)
    return path


def _refused(shelf: Shelf, file: Path, dataset: str = "person") -> MutationRefused:
    before = shelf.rows(dataset)
    with pytest.raises(MutationRefused) as raised:
        shelf.load(dataset, file, "append")
    assert shelf.folders == []
    assert shelf.rows(dataset) == before
    assert raised.value.statement is None
    return raised.value


SAME_ROWS = {
    "x.csv": 'born,name\r\n2017-01-02,Eve\r\n,"Z ""q"",\nz"\r\n',
    "x.jsonl": '{"name":"Eve","born":"2017-01-02"}\n\n{"name":"Z \\"q\\",\\nz","born":null}\n',
    "x.json": '[{"name":"Eve","born":"2017-01-02"},\n {"name":"Z \\"q\\",\\nz"}]',
}


@pytest.mark.parametrize("name", SAME_ROWS)
def test_every_format_loads_the_same_rows(shelf: Shelf, tmp_path: Path, name: str) -> None:
    made = shelf.load("person", _file(tmp_path, name, SAME_ROWS[name]), "append")

    assert made is not None
    assert (made.rows_inserted, made.rows_written, made.removed) == (2, 2, frozenset())
    eve = {"name": "Eve", "age": None, "born": date(2017, 1, 2)}
    zed = {"name": 'Z "q",\nz', "age": None, "born": None}
    assert shelf.rows("person") == sorted([ANN, BOB, eve, zed], key=repr)


def test_a_parquet_file_is_loaded_by_its_names_and_types(shelf: Shelf, tmp_path: Path) -> None:
    narrow = pa.table(
        {"age": pa.array([7], pa.int8()), "name": pa.array(["Eve"], pa.large_string())}
    )
    pq.write_table(narrow, tmp_path / "x.parquet")

    shelf.load("person", tmp_path / "x.parquet", "append")

    assert {"name": "Eve", "age": 7, "born": None} in shelf.rows("person")


def test_a_parquet_column_of_a_wider_type_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"name": ["Eve"], "age": pa.array([7], pa.int64())}), tmp_path / "x.parquet"
    )

    error = _refused(shelf, tmp_path / "x.parquet")

    assert (error.rule, error.samples) == ("type", ("age is int64 and not int32",))


def test_all_bad_rows_are_counted_and_the_first_are_named(shelf: Shelf, tmp_path: Path) -> None:
    rows = [f"p{i},{'x' if i % 2 else i}," for i in range(20)] + [",5,", "q,1,2024-02-30"]

    error = _refused(shelf, _file(tmp_path, "x.csv", "name,age,born\n" + "\n".join(rows)))

    assert (error.count, error.rule) == (12, "not_null, type")
    assert error.samples[0] == "row 2: age = x is not int"
    assert len(error.samples) == 5


def test_lines_that_are_no_rows_are_counted_with_the_rest(shelf: Shelf, tmp_path: Path) -> None:
    content = 'name,age\nEve,7\nlong,1,2\nshort\nBad,x\n"open,1\n'

    error = _refused(shelf, _file(tmp_path, "x.csv", content))

    assert error.count == 4
    assert [sample.split(":")[0] for sample in error.samples] == ["line 3", "line 4", "line 6"]


def test_an_empty_field_is_null_and_a_quoted_one_is_an_empty_text(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf", Table.of("one", "k int, v string", "k"))

    shelf.load("one", _file(tmp_path, "x.csv", 'k,v\n1,\n2,""\n'), "append")

    assert shelf.rows("one") == [{"k": 1, "v": None}, {"k": 2, "v": ""}]


def test_bytes_that_are_no_text_are_refused(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"name\nEve\nb\xffb\n")

    assert _refused(shelf, tmp_path / "x.csv").samples[0].startswith("line 3")


def test_broken_json_lines_are_named(shelf: Shelf, tmp_path: Path) -> None:
    lines = ['{"name":"Eve"}', '{"name":', "[1]", '{"name":"a","name":"b"}', '{"name":7}', "{}"]

    error = _refused(shelf, _file(tmp_path, "x.jsonl", "\n".join(lines)))

    assert (error.count, error.rule) == (5, "not_null, type")
    assert error.samples == (
        "row 2: not a JSON object",
        "row 3: not a JSON object",
        "row 4: a name twice",
        "row 5: name = 7 is not string",
        "row 6: name is NULL",
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", '[{"name":"Eve"},'),
        ("x.csv", ""),
        ("x.csv", "name,name\na,b\n"),
        ("x.parquet", "x"),
    ],
)
def test_a_file_that_is_no_such_file_is_unreadable(
    shelf: Shelf, tmp_path: Path, name: str, content: str
) -> None:
    with pytest.raises(InputUnreadable):
        shelf.load("person", _file(tmp_path, name, content), "append")
    assert shelf.folders == []


def test_other_kinds_of_files_and_no_file_at_all_are_named(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.csv"):
        shelf.load("person", _file(tmp_path, "x.xlsx", ""), "append")
    with pytest.raises(InputMissing):
        shelf.load("person", tmp_path / "none.csv", "append")


def test_a_name_with_pattern_characters_means_one_file(shelf: Shelf, tmp_path: Path) -> None:
    _file(tmp_path, "a1.csv", "name\nOther\n")

    shelf.load("person", _file(tmp_path, "a[1]*.csv", "name\nEve\n"), "append")

    assert names(shelf.rows("person")) == ["Ann", "Bob", "Eve"]


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", "name,aeg\nEve,7\n"), ("x.jsonl", '{"name":"Eve","aeg":7}\n')]
)
def test_unknown_columns_are_refused_with_the_nearest_name(
    shelf: Shelf, tmp_path: Path, name: str, content: str
) -> None:
    error = _refused(shelf, _file(tmp_path, name, content))

    assert (error.rule, error.samples) == ("unknown_column", ("'aeg' (did you mean 'age'?)",))


TYPES = {
    "b": ("boolean", {"true": True, "FALSE": False}, ["1", "yes", "t"]),
    "i": ("tinyint", {"-128": -128, "+5": 5}, ["128", "1.0", "1e1", " 1", "0x1", "1_0"]),
    "d": (
        "decimal(4,2)",
        {"1.5": Decimal("1.50"), "-99.990": Decimal("-99.99")},
        ["1.234", "100", "x"],
    ),
    "f": ("float", {"0.5": 0.5, "inf": float("inf")}, ["1e39", "16777217", "one"]),
    "x": ("double", {"1e3": 1000.0, "-.5": -0.5}, ["1e400", "9007199254740993", "1 "]),
    "y": (
        "date",
        {"2024-02-29": date(2024, 2, 29)},
        ["2023-02-29", "2024-1-1", "0000-01-01", "now"],
    ),
    "t": (
        "timestamp",
        {"2024-01-01T02:00:00+02:00": datetime(2024, 1, 1, tzinfo=UTC)},
        ["2024-01-01 24:00:00", "2024-01-01 00:00:00.1234567", "epoch"],
    ),
    "n": (
        "timestamp_ntz",
        {"2024-01-01 00:00:00.123456": datetime(2024, 1, 1, 0, 0, 0, 123456)},  # noqa: DTZ001
        ["2024-01-01 00:00:00Z"],
    ),
    "r": ("binary", {"AP8=": b"\x00\xff"}, ["AP8", "!!!!"]),
}


@pytest.mark.parametrize("column", TYPES)
def test_texts_are_read_strictly_as_the_type_of_their_column(tmp_path: Path, column: str) -> None:
    kind, good, bad = TYPES[column]
    shelf = Shelf(tmp_path / "shelf", Table.of("one", f"k int, v {kind}", "k"))
    wrong = _file(tmp_path, "bad.csv", "k,v\n" + "".join(f'{i},"{v}"\n' for i, v in enumerate(bad)))
    right = _file(
        tmp_path, "good.csv", "k,v\n" + "".join(f'{i},"{v}"\n' for i, v in enumerate(good))
    )

    assert _refused(shelf, wrong, "one").count == len(bad)
    shelf.load("one", right, "append")
    assert [row["v"] for row in shelf.rows("one")] == list(good.values())


def test_json_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    table = Table.of("one", 'k bigint, `v "é` decimal(38,20), w double', "k")
    shelf = Shelf(tmp_path / "shelf", table)
    content = (
        '{"k": 9223372036854775807, "v \\"é": 123456789012345678.12345678901234567890, "w": 1}\n'
    )

    shelf.load("one", _file(tmp_path, "x.jsonl", content), "append")

    exact = Decimal("123456789012345678.12345678901234567890")
    assert shelf.rows("one") == [{"k": 2**63 - 1, 'v "é': exact, "w": 1.0}]
    for wrong in ('{"k": 1.0}', '{"k": "1"}', '{"k": 9223372036854775808}', '{"k":1,"w":"1"}'):
        shelf.folders.clear()
        assert _refused(shelf, _file(tmp_path, "y.jsonl", wrong), "one").count == 1


def test_a_text_that_looks_like_a_number_does_not_pass_for_one(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf", Table.of("one", "k string, v decimal(4,2)", "k"))
    row = {"k": '"v": 5', "v": 1.25}

    shelf.load("one", _file(tmp_path, "x.jsonl", json.dumps(row)), "append")

    assert shelf.rows("one") == [{"k": '"v": 5', "v": Decimal("1.25")}]


def test_append_refuses_keys_that_are_there_and_counts_them(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(KeyConflict) as raised:
        shelf.load("person", _file(tmp_path, "x.csv", "name\nEve\nBob\nAnn\n"), "append")

    assert (raised.value.count, raised.value.samples) == (2, ("name = 'Ann'", "name = 'Bob'"))
    assert shelf.folders == []


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_key_twice_in_the_file_is_refused(shelf: Shelf, tmp_path: Path, mode: str) -> None:
    with pytest.raises(MutationRefused) as raised:
        shelf.load("person", _file(tmp_path, "x.csv", "name\nEve\nEve\n"), mode)  # type: ignore[arg-type]

    assert (raised.value.rule, raised.value.samples) == ("key", ("name = 'Eve' twice",))


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_references_of_the_file_must_hold(shelf: Shelf, tmp_path: Path, mode: str) -> None:
    with pytest.raises(MutationRefused) as raised:
        shelf.load("knows", _file(tmp_path, "x.csv", "src,dst\nAnn,Nobody\n"), mode)  # type: ignore[arg-type]

    assert raised.value.rule == "reference"
    assert shelf.folders == []


def test_merge_replaces_adds_and_leaves_equal_rows_alone(shelf: Shelf, tmp_path: Path) -> None:
    shelf.mutate(insert("person", {"name": "Zoe", "age": 1}))
    content = "name,age,born\nAnn,30,1994-05-01\nZoe,2,\nEve,7,\n"

    made = shelf.load("person", _file(tmp_path, "x.csv", content), "merge")

    assert made is not None
    assert (made.rows_inserted, made.rows_updated, made.rows_deleted) == (1, 1, 0)
    assert (len(made.removed), made.rows_written) == (1, 2)
    assert {row["name"]: row["age"] for row in shelf.rows("person")} == {
        "Ann": 30,
        "Bob": None,
        "Eve": 7,
        "Zoe": 2,
    }


@pytest.mark.parametrize("mode", ["merge", "overwrite"])
def test_loading_what_is_there_changes_nothing(shelf: Shelf, tmp_path: Path, mode: str) -> None:
    content = "name,age,born\nBob,,\nAnn,30,1994-05-01\n"

    assert shelf.load("person", _file(tmp_path, "x.csv", content), mode) is None  # type: ignore[arg-type]
    assert shelf.folders == []


def test_overwrite_replaces_all(shelf: Shelf, tmp_path: Path) -> None:
    made = shelf.load("person", _file(tmp_path, "x.csv", "name,age\nBob,5\nEve,\n"), "overwrite")

    assert made is not None
    assert (made.rows_inserted, made.rows_updated, made.rows_deleted) == (1, 1, 1)
    assert {row["name"]: row["age"] for row in shelf.rows("person")} == {"Bob": 5, "Eve": None}


def test_overwrite_keeps_what_other_tables_refer_to(shelf: Shelf, tmp_path: Path) -> None:
    shelf.mutate(insert("knows", {"src": "Ann", "dst": "Bob"}))
    before = shelf.rows("person")

    with pytest.raises(MutationRefused) as raised:
        shelf.load("person", _file(tmp_path, "x.csv", "name\nBob\n"), "overwrite")

    assert raised.value.samples == ("knows.src = 'Ann' still refers to it",)
    assert shelf.rows("person") == before


def test_a_table_is_emptied_by_a_file_without_rows(shelf: Shelf, tmp_path: Path) -> None:
    made = shelf.load("person", _file(tmp_path, "x.csv", "name\n"), "overwrite")

    assert made is not None
    assert (made.rows_deleted, made.rows_written, len(made.files)) == (2, 0, 1)
