"""Statements change tables together or not at all, and every rule of a table holds afterwards."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from tallyman.domain.version.table import Table
from tallyman.engine.table.file import FILE
from tallyman.engine.table.state import MOST_FRAGMENTS
from tallyman.errors import DatasetDamaged, InvalidMutation, KeyConflict, MutationRefused
from tests.engine_tables.tables import KNOWS, PERSON, Shelf, delete, insert, names, update

ANN, BOB, EVE = (
    {"name": name, "age": age} for name, age in (("Ann", 30), ("Bob", None), ("Eve", 7))
)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path, PERSON, KNOWS)
    shelf.mutate(insert("person", ANN, BOB))
    return shelf


def _refused(shelf: Shelf, *statements: object) -> MutationRefused:
    """The refusal, after which nothing was written and nothing is different."""
    shelf.folders.clear()
    before = {name: shelf.rows(name) for name in shelf.held}
    with pytest.raises(MutationRefused) as raised:
        shelf.mutate(*statements)  # type: ignore[arg-type]
    assert shelf.folders == []
    assert {name: shelf.rows(name) for name in shelf.held} == before
    return raised.value


def test_a_later_statement_sees_what_an_earlier_one_inserted(shelf: Shelf) -> None:
    changed = shelf.mutate(insert("person", EVE), insert("knows", {"src": "Eve", "dst": "Ann"}))

    assert {name: c.rows_inserted for name, c in changed.items()} == {"person": 1, "knows": 1}
    assert names(shelf.rows("person")) == ["Ann", "Bob", "Eve"]
    assert shelf.rows("knows") == [{"src": "Eve", "dst": "Ann"}]


def test_a_reference_to_a_row_that_is_not_there_refuses_the_whole_mutation(shelf: Shelf) -> None:
    error = _refused(
        shelf, insert("person", {"name": "Zed"}), insert("knows", {"src": "Zed", "dst": "Missing"})
    )

    assert (error.statement, error.dataset, error.rule, error.count) == (2, "knows", "reference", 1)
    assert error.samples == ("dst = 'Missing' is not in person.name",)
    shelf.mutate(insert("person", {"name": "Frank"}))  # the next one is not blocked
    assert names(shelf.rows("person")) == ["Ann", "Bob", "Frank"]


@pytest.mark.parametrize(
    ("statement", "rule", "sample"),
    [
        (insert("person", {"name": "Eve", "age": "7"}), "type", "row 1: age = '7' as int"),
        (insert("person", {"name": "Eve", "age": 7.0}), "type", "row 1: age = 7.0 as int"),
        (insert("person", {"name": "Eve", "age": 2**31}), "type", "out of range"),
        (insert("person", {"name": 7}), "type", "row 1: name = 7 as string"),
        (insert("person", {"name": "Eve", "born": "2024-02-30"}), "type", "row 1: born"),
        (insert("person", {"age": 7}), "not_null", "row 1: name"),
        (insert("person", EVE, {"name": None}), "not_null", "row 2: name"),
        (
            insert("person", {"name": "Eve", "aeg": 7}),
            "unknown_column",
            "'aeg' (did you mean 'age'?)",
        ),
        (insert("person", EVE, EVE), "key", "name = 'Eve' twice"),
        (update("person", {"name": "Ann"}, "true"), "key", "name = 'Ann' twice"),
        (update("person", {"name": None}, "true"), "not_null", "name = NULL"),
        (update("person", {"age": "x"}, "true"), "type", "age = 'x' as int"),
        (update("person", {"aeg": 1}, "true"), "unknown_column", "'aeg'"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named_with_the_rule(
    shelf: Shelf, statement: object, rule: str, sample: str
) -> None:
    error = _refused(shelf, statement)

    assert error.rule == rule
    assert error.statement == 1
    assert sample in error.samples[0]


def test_at_most_five_samples_are_shown_and_all_rows_are_counted(shelf: Shelf) -> None:
    error = _refused(shelf, insert("person", *({"name": i} for i in range(9))))

    assert (error.count, len(error.samples)) == (9, 5)


def test_inserting_a_key_that_is_there_is_a_conflict_with_the_keys(shelf: Shelf) -> None:
    with pytest.raises(KeyConflict) as raised:
        shelf.mutate(insert("person", EVE), insert("person", {"name": "Ann"}, {"name": "Zoe"}))

    assert (raised.value.statement, raised.value.count) == (2, 1)
    assert raised.value.samples == ("name = 'Ann'",)


def test_a_referenced_row_cannot_be_deleted_or_renamed(shelf: Shelf) -> None:
    shelf.mutate(insert("knows", {"src": "Ann", "dst": "Bob"}))

    deleted = _refused(shelf, delete("person", {"name": "Bob"}))
    renamed = _refused(shelf, update("person", {"name": "Rob"}, "name = 'Bob'"))

    assert (deleted.rule, renamed.rule) == ("reference", "reference")
    assert deleted.samples == ("knows.dst = 'Bob' still refers to it",)


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("true", ["Ann", "Bob"]),
        ("false", []),
        ("age <=> NULL", ["Bob"]),
        ("age IS NOT NULL AND age BETWEEN 29 AND 30.5", ["Ann"]),
        ("name LIKE 'A%' OR coalesce(age, 1) = 1", ["Ann", "Bob"]),
        (r"name LIKE 'A\_n'", []),
        ("lower(`NAME`) IN (\"bob\", 'x')", ["Bob"]),
        ("CASE WHEN age % 7 = 2 THEN true END", ["Ann"]),
        ("born < DATE '2024-01-01' -- nobody", []),
    ],
)
def test_conditions_are_written_in_sparks_sql(shelf: Shelf, where: str, chosen: list[str]) -> None:
    gone = set(names(shelf.rows("person")))
    shelf.mutate(delete("person", where))

    assert sorted(gone - {str(name) for name in names(shelf.rows("person"))}) == chosen


def test_a_backslash_in_a_pattern_means_the_character_itself(shelf: Shelf) -> None:
    shelf.mutate(insert("person", {"name": "A_n"}))

    shelf.mutate(delete("person", r"name LIKE 'A\_n' OR name LIKE 'B!_b' ESCAPE '!'"))

    assert names(shelf.rows("person")) == ["Ann", "Bob"]


@pytest.mark.parametrize(
    "where",
    [
        "true; DROP TABLE _tm_table_0",
        "name IN (SELECT src FROM knows)",
        "EXISTS (SELECT 1)",
        "(SELECT count(*) FROM _tm_table_1) > 0",
        "count(*) > 0",
        "row_number() OVER (ORDER BY name) = 1",
        "name = read_text('/etc/passwd')",
        "getenv('HOME') = 'x'",
        "age = 1) OR (1 = 1",
        "current_setting('threads') = '2'",
        "_tm_fragment = 0",
        "person.age = 1",
        "rand() < 0.5",
        "age = ?",
        "age = $1",
        "name = 'it''s'",
        "age + 1",
        "name",
        "name = 1",
        "born = 'soon'",
        "(" * 5000 + "true" + ")" * 5000,
        "",
    ],
)
def test_a_condition_is_one_truth_about_this_tables_columns(shelf: Shelf, where: str) -> None:
    shelf.folders.clear()
    with pytest.raises(InvalidMutation) as raised:
        shelf.mutate(delete("person", where))

    assert raised.value.problems[0].where == "statements[0].delete.where"
    assert shelf.folders == []


def test_an_unknown_column_in_a_condition_gets_the_nearest_name(shelf: Shelf) -> None:
    with pytest.raises(InvalidMutation) as raised:
        shelf.mutate(delete("person", "naem = 'Ann' AND ag = 3"))

    assert [problem.nearest for problem in raised.value.problems] == ["name", "age"]


def test_texts_that_look_like_sql_are_only_texts(shelf: Shelf) -> None:
    nasty = "x'); DROP TABLE _tm_table_0; --"
    shelf.mutate(insert("person", {"name": nasty}))
    shelf.mutate(update("person", {"name": nasty + nasty}, {"name": nasty}))
    shelf.mutate(delete("person", {"name": "' OR true --"}))

    assert names(shelf.rows("person")) == ["Ann", "Bob", nasty + nasty]


def test_inserts_add_a_file_and_leave_every_other_alone(shelf: Shelf) -> None:
    before = shelf.fragments("person")

    changed = shelf.mutate(insert("person", EVE))["person"]

    assert (changed.removed, changed.rows_written) == (frozenset(), 1)
    assert before < shelf.fragments("person")


def test_a_change_rewrites_only_the_fragments_that_hold_its_rows(shelf: Shelf) -> None:
    before = shelf.fragments("person")
    shelf.mutate(insert("person", EVE, {"name": "Zoe"}))
    (second,) = shelf.fragments("person") - before

    changed = shelf.mutate(update("person", {"age": 8}, {"name": "Eve"}))["person"]

    assert (changed.removed, changed.rows_updated, changed.rows_written) == ({second}, 1, 2)
    assert names(shelf.rows("person")) == ["Ann", "Bob", "Eve", "Zoe"]


def test_rows_of_several_fragments_come_together_in_one_file(shelf: Shelf) -> None:
    shelf.mutate(insert("person", EVE))
    shelf.mutate(insert("person", {"name": "Zoe", "age": 1}))
    before = shelf.fragments("person")

    changed = shelf.mutate(update("person", {"age": 8}, "name <> 'Bob' AND name <> 'Zoe'"))[
        "person"
    ]

    assert (len(changed.removed), changed.rows_updated, changed.rows_written) == (2, 2, 3)
    assert len(before & shelf.fragments("person")) == 1
    assert {row["name"]: row["age"] for row in shelf.rows("person")} == {
        "Ann": 8,
        "Bob": None,
        "Eve": 8,
        "Zoe": 1,
    }
    assert len(shelf.rows("person")) == 4


def test_a_fragment_of_which_nothing_is_left_is_replaced_by_nothing(shelf: Shelf) -> None:
    shelf.mutate(insert("person", EVE))

    changed = shelf.mutate(delete("person", {"name": "Eve"}))["person"]

    assert (len(changed.removed), changed.files, changed.rows_written) == (1, (), 0)


def test_a_table_without_rows_has_one_file(shelf: Shelf) -> None:
    changed = shelf.mutate(delete("person", "true"))["person"]

    assert (changed.rows_deleted, changed.rows_written, len(changed.files)) == (2, 0, 1)
    assert pq.ParquetFile(changed.files[0]).schema_arrow.names == list(PERSON.names)


def test_a_mutation_that_changes_no_row_writes_nothing(shelf: Shelf) -> None:
    shelf.folders.clear()

    assert shelf.mutate(delete("person", "age = 99")) == {}
    assert shelf.mutate(update("person", {"age": 30}, {"name": "Ann"})) == {}
    assert shelf.mutate(update("person", {"age": None}, {"name": "Bob"})) == {}
    assert shelf.folders == []


def test_a_table_in_too_many_pieces_becomes_one(shelf: Shelf) -> None:
    for number in range(MOST_FRAGMENTS - 1):
        shelf.mutate(insert("person", {"name": f"p{number:02}", "age": number}))
    assert len(shelf.fragments("person")) == MOST_FRAGMENTS
    before = shelf.rows("person")

    changed = shelf.mutate(insert("person", EVE))["person"]

    assert (len(changed.removed), changed.rows_written) == (MOST_FRAGMENTS, MOST_FRAGMENTS + 2)
    assert shelf.rows("person") == sorted([*before, {**EVE, "born": None}], key=repr)


EVERY_TYPE = {
    "text": ("string", "é\n'", pa.string()),
    "flag": ("boolean", True, pa.bool_()),
    "i1": ("tinyint", -128, pa.int8()),
    "i2": ("smallint", 32767, pa.int16()),
    "i4": ("integer", -(2**31), pa.int32()),
    "i8": ("long", 2**63 - 1, pa.int64()),
    "f4": ("float", 0.5, pa.float32()),
    "f8": ("double", 0.1, pa.float64()),
    "money": (
        "decimal(38,2)",
        Decimal("123456789012345678901234567890123456.78"),
        pa.decimal128(38, 2),
    ),
    "day": ("date", date(1, 1, 1), pa.date32()),
    "at": ("timestamp", datetime(2024, 1, 1, 1, 2, 3, 4, UTC), pa.timestamp("us", "UTC")),
    "wall": ("timestamp_ntz", datetime(9999, 12, 31, 23, 59, 59, 999999), pa.timestamp("us")),  # noqa: DTZ001
    "raw": ("binary", b"\x00\xff", pa.binary()),
}


def test_every_type_is_written_exactly_as_declared(tmp_path: Path) -> None:
    schema = "k int, " + ", ".join(f"{name} {kind}" for name, (kind, *_) in EVERY_TYPE.items())
    shelf = Shelf(tmp_path, Table.of("every", schema, "k"))
    row = {"k": 1, **{name: value for name, (_, value, _) in EVERY_TYPE.items()}}

    shelf.mutate(insert("every", row, {"k": 2}))
    changed = shelf.mutate(update("every", {n: v for n, v in row.items() if n != "k"}, "k = 2"))

    written = pq.ParquetFile(changed["every"].files[0]).schema_arrow
    assert [(f.name, f.type) for f in written][1:] == [(n, t) for n, (*_, t) in EVERY_TYPE.items()]
    assert [field.nullable for field in written] == [False] + [True] * len(EVERY_TYPE)
    assert shelf.rows("every") == [row, {**row, "k": 2}]
    for name, value in row.items():
        assert shelf.mutate(update("every", {"flag": True}, {name: value})) == {}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("tinyint", 128),
        ("bigint", 2**63),
        ("int", True),
        ("boolean", 1),
        ("boolean", "true"),
        ("float", 1e39),
        ("float", 2**24 + 1),
        ("double", 2**53 + 1),
        ("double", "1"),
        ("decimal(5,2)", 1.005),
        ("decimal(5,2)", 1000),
        ("decimal(5,2)", "NaN"),
        ("decimal(5,2)", "1,5"),
        ("decimal(38,30)", 0.12345678901234567),
        ("date", datetime(2024, 1, 1, tzinfo=UTC)),
        ("date", "2024-1-1"),
        ("timestamp", "2024-01-01 00:00:00.1234567"),
        ("timestamp", date(2024, 1, 1)),
        ("timestamp", "0001-01-01 00:00:00+02:00"),
        ("timestamp_ntz", "2024-01-01 00:00:00Z"),
        ("binary", "not base64!"),
        ("string", b"x"),
        ("string", "\ud800"),
    ],
)
def test_a_value_that_would_be_changed_by_storing_it_is_refused(
    tmp_path: Path, kind: str, value: object
) -> None:
    shelf = Shelf(tmp_path, Table.of("one", f"k int, v {kind}", "k"))

    assert _refused(shelf, insert("one", {"k": 1, "v": value})).rule == "type"


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("decimal(5,2)", 1.5, Decimal("1.50")),
        ("decimal(5,2)", "-.25", Decimal("-0.25")),
        ("decimal(5,2)", "100e-1", Decimal("10.00")),
        ("decimal(5,2)", 999, Decimal("999.00")),
        ("decimal(38,0)", Decimal("9" * 38), Decimal("9" * 38)),
        ("timestamp", "2024-01-01T01:00:00+01:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", "2024-01-01", datetime(2024, 1, 1, tzinfo=UTC)),
        ("binary", "AP8=", b"\x00\xff"),
        ("double", 3, 3.0),
        ("double", float("inf"), float("inf")),
    ],
)
def test_a_value_in_another_spelling_is_the_same_value(
    tmp_path: Path, kind: str, value: object, stored: object
) -> None:
    shelf = Shelf(tmp_path, Table.of("one", f"k int, v {kind}", "k"))
    shelf.mutate(insert("one", {"k": 1, "v": value}))

    assert shelf.rows("one") == [{"k": 1, "v": stored}]


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    odd = '`a "b"``c` string, `select` int, rowid int, v0 int, t0 int'
    shelf = Shelf(tmp_path, Table.of("odd", odd, ['a "b"`c', "rowid"]))
    shelf.mutate(insert("odd", {'a "b"`c': "x", "select": 1, "rowid": 7, "v0": 5}))
    shelf.mutate(
        update("odd", {"select": 2, "t0": 3}, "`a \"b\"``c` = 'x' AND v0 = 5 AND rowid = 7")
    )

    assert shelf.rows("odd") == [{'a "b"`c': "x", "select": 2, "rowid": 7, "v0": 5, "t0": 3}]


def test_a_flipped_bit_in_a_file_is_found_and_never_copied(shelf: Shelf) -> None:
    ((path,),) = shelf.held["person"].fragments.values()
    content = bytearray(Path(path).read_bytes())
    content[content.index(b"Ann") + 1] ^= 1
    Path(path).write_bytes(content)

    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(path, page_checksum_verification=True).read()
    shelf.folders.clear()
    with pytest.raises(DatasetDamaged, match="CRC"):
        shelf.mutate(update("person", {"age": 5}, "true"))
    assert shelf.folders == []


def test_a_file_that_is_there_is_never_written_over(shelf: Shelf) -> None:
    folder = shelf.next_folder("person")
    folder.mkdir(parents=True)
    (folder / FILE).write_text("mine")

    with pytest.raises(FileExistsError):
        shelf.mutate(insert("person", EVE))
    assert (folder / FILE).read_text() == "mine"
