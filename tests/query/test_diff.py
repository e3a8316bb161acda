"""The difference between two versions, rule by rule."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.query.diff.diff import Difference, diff
from tests.world.scale import some

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """One Parquet file of the given columns."""

    def written(name: str | None = None, /, **columns: Any) -> str:
        path = tmp_path / (name or f"{len(list(tmp_path.rglob('*.parquet')))}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
        return str(path)

    return written


def counts(found: Difference) -> tuple[int, int, int, int]:
    return found.added, found.removed, found.changed, found.unchanged


def one_value(write: Write, before: Any, after: Any) -> bool:
    """Whether a single value changed; by key and by whole rows alike."""
    a, b = write(id=[1], v=before), write(id=[1], v=after)
    by_key, by_row = diff([a], [b], key=["id"]), diff([a], [b], key=[])
    assert (by_key.changed, by_key.unchanged) in {(0, 1), (1, 0)}
    assert counts(by_row) == ((1, 1, 0, 0) if by_key.changed else (0, 0, 0, 1))
    return by_key.changed == 1


def test_without_any_files_there_is_no_difference() -> None:
    assert diff([], [], key=["id"]) == Difference(by_key=True)
    assert diff([], [], key=[]) == Difference(by_key=False)


def test_files_of_one_side_may_have_other_columns(write: Write) -> None:
    before = [write(id=[1], v=["x"]), write(id=[2])]
    after = [write(id=[1, 2], v=["x", None])]
    found = diff(before, after, key=["id"])
    assert (counts(found), found.columns_added) == ((0, 0, 0, 2), ())


def test_the_system_column_is_ignored(write: Write) -> None:
    before = write(id=[1], _tm=[{"key": "a"}])
    after = write(id=[1], _tm=[{"key": "b"}])
    found = diff([before], [after], key=["id"])
    assert (counts(found), found.columns_retyped) == ((0, 0, 0, 1), ())
    without = diff([before], [write(id=[1])], key=["id"])
    assert (counts(without), without.columns_removed) == ((0, 0, 0, 1), ())
    assert diff([], [after], key=["id"]).rows[0].after == {"id": 1}


def test_added_and_removed_columns_are_told_and_change_no_row(write: Write) -> None:
    before, after = write(id=[1, 2], old=[1, 2], v=[1, 2]), write(v=[1, 3], id=[1, 2], new=[1, 2])
    found = diff([before], [after], key=["id"])
    assert (found.columns_added, found.columns_removed) == (("new",), ("old",))
    assert (counts(found), dict(found.changed_by_column)) == ((0, 0, 1, 1), {"v": 1})
    assert found.rows[0].before == {"id": 2, "old": 2, "v": 2}
    assert found.rows[0].after == {"v": 3, "id": 2, "new": 2}


def test_without_a_shared_column_everything_is_replaced(write: Write) -> None:
    found = diff([write(a=[1, 2])], [write(b=[1])], key=["a"])
    assert (counts(found), found.by_key) == ((1, 2, 0, 0), False)
    assert [(r.kind, r.before, r.after) for r in found.rows] == [
        ("removed", {"a": 1}, None),
        ("removed", {"a": 2}, None),
        ("added", None, {"b": 1}),
    ]


def test_names_of_columns_are_told_apart_by_case(write: Write) -> None:
    found = diff([write(id=[1], Name=["x"])], [write(id=[1], name=["y"])], key=["id"])
    assert (found.columns_added, found.columns_removed) == (("name",), ("Name",))
    assert counts(found) == (0, 0, 0, 1)


@pytest.mark.parametrize("key", [[], ["nowhere"], ["old"], ["new"], ["v", "nowhere"]])
def test_without_the_columns_of_the_key_whole_rows_are_compared(
    write: Write, key: list[str]
) -> None:
    before, after = write(v=[1, 2], old=[1, 2]), write(v=[2, 3], new=[1, 2])
    found = diff([before], [after], key=key)
    assert (counts(found), found.by_key) == ((1, 1, 0, 1), False)


def test_a_null_in_one_part_of_a_key_makes_it_unusable(write: Write) -> None:
    before, after = write(a=[1, 1], b=[1, None]), write(a=[1, 1], b=[1, 2])
    assert not diff([before], [after], key=["a", "b"]).by_key
    assert diff([after], [after], key=["a", "b"]).by_key


def test_samples_are_the_first_in_the_order_of_the_key(write: Write) -> None:
    before = write(a=[2, 1, 1, 3], b=["x", "y", "x", "x"], v=[1, 2, 3, 4])
    after = write(a=[2, 1, 1, 0], b=["x", "y", "x", "z"], v=[9, 9, 9, 9])
    for limit in (0, 1, 3, 5, 100):
        found = diff([before], [after], key=["a", "b"], limit=limit)
        assert counts(found) == (1, 1, 3, 0)
        ordered = [(0, "z"), (1, "x"), (1, "y"), (2, "x"), (3, "x")]
        assert [(r.key["a"], r.key["b"]) for r in found.rows] == ordered[:limit]


def test_no_more_samples_than_asked_for_of_one_row_many_times(write: Write) -> None:
    found = diff([], [write(v=["x"] * 500)], key=[], limit=3)
    assert (counts(found), len(found.rows)) == ((500, 0, 0, 0), 3)


AWKWARD = [
    'with "quotes"',
    "with space",
    "a.b",
    "naïve 名前 🙂",
    "it's",
    "SELECT",
    "f0",
    "{x}",
    "$1",
]


def test_names_of_columns_may_hold_anything(write: Write) -> None:
    old, new = (dict.fromkeys(AWKWARD, values) for values in ((1, 2), (1, 3)))
    before, after = write(**old, k=[1, 2]), write(**new, k=[1, 2])
    found = diff([before], [after], key=["k"])
    assert dict(found.changed_by_column) == dict.fromkeys(AWKWARD, 1)
    assert found.rows[0].columns == tuple(AWKWARD)
    for key in AWKWARD:
        found = diff([before], [after], key=[key])
        assert (counts(found), found.by_key) == ((1, 1, 0, 1), True)
        assert found.rows[0].before == {**dict.fromkeys(AWKWARD, 2), "k": 2}


@pytest.mark.parametrize(
    "name",
    [
        *("a*.parquet", "a?.parquet", "a[b].parquet", "[!x].parquet", "**/a.parquet"),
        *("it's.parquet", 'a"q.parquet', "a\\*.parquet", "a\\b.parquet", "a{b,c}.parquet"),
        *("d[1]*/x\\y?.parquet", "id=7/a.parquet", "naïve 名前.parquet", "a%20b.parquet"),
    ],
)
def test_a_path_is_read_literally(write: Write, name: str) -> None:
    for other in ("ab.parquet", "ax.parquet", "b/a.parquet", "d1/xzy.parquet", "y.parquet"):
        write(other, id=[0], v=["another file"])
    file = write(name, id=[1], v=["x"])
    assert diff([], [file], key=["id"]).rows[0].after == {"id": 1, "v": "x"}
    assert counts(diff([file], [write(id=[1], v=["y"])], key=["id"])) == (0, 0, 1, 0)


def test_a_missing_file_is_an_error(write: Write, tmp_path: Path) -> None:
    for name in ("gone.parquet", "gone*.parquet"):
        with pytest.raises(duckdb.Error):
            diff([write(id=[1])], [str(tmp_path / name)], key=["id"])


MAP = pa.map_(pa.string(), pa.int32())
IN_UTC = pa.timestamp("us", "UTC")
PAIRS: dict[str, tuple[Any, Any]] = {
    "null": (pa.array([None], pa.int32()), pa.array([5], pa.int32())),
    "nan": ([float("nan")], [1.0]),
    "infinity": ([float("inf")], [float("-inf")]),
    "text": (["é"], ["e\u0301"]),
    "empty text": ([""], pa.array([None], pa.string())),
    "text with a NUL": (["a\0b"], ["a\0c"]),
    "binary": ([b"\x00\xff"], [b"\x00\xfe"]),
    "boolean": ([True], [False]),
    "big integer": ([2**53], [2**53 + 1]),
    "decimal": (
        pa.array([Decimal("0." + "0" * 37 + "1")], pa.decimal128(38, 38)),
        pa.array([Decimal("0." + "0" * 37 + "2")], pa.decimal128(38, 38)),
    ),
    "date": ([date(2025, 1, 1)], [date(2025, 1, 2)]),
    "time": ([time(1, 2, 3)], [time(1, 2, 4)]),
    "timestamp": ([datetime(2025, 1, 1)], [datetime(2025, 1, 1, microsecond=1)]),  # noqa: DTZ001
    "zoned": (
        pa.array([datetime(2025, 1, 1, tzinfo=UTC)], IN_UTC),
        pa.array([datetime(2025, 1, 1, 1, tzinfo=UTC)], IN_UTC),
    ),
    "far instant": (
        pa.array([2**62], pa.timestamp("us")),
        pa.array([2**62 - 1], pa.timestamp("us")),
    ),
    "list": ([[1, 2]], [[2, 1]]),
    "list with a null": ([[1, None]], pa.array([[1]], pa.list_(pa.int64()))),
    "empty list": (pa.array([[]], pa.list_(pa.int64())), pa.array([None], pa.list_(pa.int64()))),
    "list of nan": ([[float("nan")]], [[0.5]]),
    "struct": ([{"a": 1, "it's": None}], pa.array([{"a": 1, "it's": 2}])),
    "map": (pa.array([[("a", 1)]], MAP), pa.array([[("a", 2)]], MAP)),
    "empty map": (pa.array([[]], MAP), pa.array([None], MAP)),
    "struct of map": (
        pa.array([{"m": [("a", 1)]}], pa.struct([("m", MAP)])),
        pa.array([{"m": None}], pa.struct([("m", MAP)])),
    ),
    "null struct": (
        pa.array([{"m": None}], pa.struct([("m", MAP)])),
        pa.array([None], pa.struct([("m", MAP)])),
    ),
    "list of map": (
        pa.array([[[("a", 1)], None]], pa.list_(MAP)),
        pa.array([[[("a", 1)], [("b", 1)]]], pa.list_(MAP)),
    ),
}


def typed(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """A plain list takes the type of the other side, so that nothing is retyped by accident."""
    left, right = (pa.array(side) if isinstance(side, list) else side for side in pair)
    return (left.cast(right.type), right) if left.type != right.type else (left, right)


@pytest.mark.parametrize("name", some(list(PAIRS), 4))
def test_a_value_equals_itself_and_nothing_else(write: Write, name: str) -> None:
    left, right = typed(PAIRS[name])
    assert not one_value(write, left, left)
    assert not one_value(write, right, right)
    assert one_value(write, left, right)
    assert one_value(write, right, left)


def test_minus_zero_equals_zero_wherever_it_is(write: Write) -> None:
    assert not one_value(write, [-0.0], [0.0])
    assert not one_value(write, [[-0.0]], [[0.0]])
    assert not one_value(write, [{"x": -0.0}], [{"x": 0.0}])
    before, after = write(id=[-0.0, float("nan")]), write(id=[float("nan"), 0.0])
    assert counts(diff([before], [after], key=["id"])) == (0, 0, 0, 2)


def test_maps_are_equal_whatever_the_order_of_their_entries(write: Write) -> None:
    for kind, wrapped in (
        (MAP, lambda entries: entries),
        (pa.list_(MAP), lambda entries: [entries, None]),
        (pa.struct([("in 'a'", MAP)]), lambda entries: {"in 'a'": entries}),
        (pa.map_(pa.string(), MAP), lambda entries: [("outer", entries)]),
    ):
        left = pa.array([wrapped([("a", 1), ("b", 2)])], kind)
        right = pa.array([wrapped([("b", 2), ("a", 1)])], kind)
        assert not one_value(write, left, right)


def test_a_key_may_be_of_any_type(write: Write) -> None:
    for name, pair in PAIRS.items():
        left, right = typed(pair)
        if not left.null_count and not right.null_count:
            found = diff([write(k=left)], [write(k=right)], key=["k"])
            assert (counts(found), found.by_key) == ((1, 1, 0, 0), True), name
            assert counts(diff([write(k=left)], [write(k=left)], key=["k"])) == (0, 0, 0, 1), name


RETYPED: list[tuple[Any, Any, bool]] = [
    (pa.array([1], pa.int32()), pa.array([1], pa.int64()), False),
    (pa.array([1], pa.int32()), pa.array([2], pa.int64()), True),
    (pa.array([None], pa.int32()), pa.array([None], pa.int64()), False),
    (pa.array([None], pa.int32()), pa.array([0], pa.int64()), True),
    (pa.array([1]), pa.array([1.0]), False),
    (pa.array([1]), pa.array([1.5]), True),
    (pa.array([0]), pa.array([-0.0]), False),
    (pa.array([0]), pa.array([float("nan")]), True),
    (pa.array([0]), pa.array([1e300]), True),
    (pa.array([2**53 + 1]), pa.array([float(2**53)]), True),
    (pa.array([0.5], pa.float32()), pa.array([0.5]), False),
    (pa.array([float("nan")], pa.float32()), pa.array([float("nan")]), False),
    (pa.array([Decimal("0.00001")]), pa.array([0.00001]), False),
    (pa.array([Decimal("1.50")]), pa.array([Decimal("1.5000")]), False),
    (pa.array([Decimal("1.50")]), pa.array([Decimal("1.5001")]), True),
    (pa.array([Decimal("100")], pa.decimal128(3, 0)), pa.array([Decimal("100.00")]), False),
    (pa.array([Decimal("100")], pa.decimal128(3, 0)), pa.array([Decimal("1.00")]), True),
    (pa.array([Decimal("-.50")], pa.decimal128(2, 2)), pa.array([Decimal("-0.500")]), False),
    (pa.array([Decimal("0.00")], pa.decimal128(2, 2)), pa.array([0]), False),
    (pa.array([Decimal("9" * 28)], pa.decimal128(38, 10)),
     pa.array([Decimal("9" * 28)], pa.decimal128(38, 0)), False),
    (pa.array([1]), pa.array(["1"]), False),
    (pa.array([1]), pa.array(["01"]), True),
    (pa.array([Decimal("1.50")]), pa.array(["1.50"]), False),
    (pa.array([True]), pa.array(["true"]), False),
    (pa.array([date(2025, 1, 1)]), pa.array(["2025-01-01"]), False),
    (pa.array([date(2025, 1, 1)]), pa.array([datetime(2025, 1, 1)]), False),  # noqa: DTZ001
    (pa.array([date(2025, 1, 1)]), pa.array([datetime(2025, 1, 1, 1)]), True),  # noqa: DTZ001
    (pa.array([datetime(2025, 1, 1)]), pa.array([datetime(2025, 1, 1, tzinfo=UTC)]), False),  # noqa: DTZ001
    (pa.array([10**15], pa.timestamp("us")), pa.array([10**18], pa.timestamp("ns")), False),
    (pa.array([10**15], pa.timestamp("us")), pa.array([10**18 + 1], pa.timestamp("ns")), True),
    (pa.array([[1]]), pa.array(["[1]"]), False),
    (pa.array([{"a": 1}]), pa.array([{"a": 1, "b": 2}]), True),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "changed"), some(RETYPED, 5))
def test_a_retyped_value_is_what_a_person_reads(
    write: Write, before: Any, after: Any, changed: bool
) -> None:
    assert one_value(write, before, after) == changed
    assert one_value(write, after, before) == changed
    found = diff([write(id=[1], v=before)], [write(id=[1], v=after)], key=["id"])
    assert found.columns_retyped == ("v",)


def test_a_retyped_key_still_matches(write: Write) -> None:
    before = write(id=[1, 2], v=["a", "b"])
    for keys in ([1.0, 3.0], ["1", "3"], pa.array([1, 3], pa.int8())):
        found = diff([before], [write(id=keys, v=["A", "c"])], key=["id"])
        assert (counts(found), found.by_key) == ((1, 1, 1, 0), True)
        assert found.columns_retyped == ("id",)


def test_samples_can_be_printed_as_json(write: Write) -> None:
    columns = {name: typed(pair)[0] for name, pair in PAIRS.items()}
    columns["map by date"] = pa.array(
        [[(date(2025, 1, 1), b"x")]], pa.map_(pa.date32(), pa.binary())
    )
    columns["map by binary"] = pa.array([[(b"\xff", 1)]], pa.map_(pa.binary(), pa.int8()))
    columns["zoned in a list"] = pa.array([[datetime(2025, 1, 1, tzinfo=UTC)]], pa.list_(IN_UTC))
    columns["nothing"] = pa.nulls(1)
    row = diff([], [write(**columns)], key=["big integer"]).rows[0]
    printed = json.loads(json.dumps(row.after, default=str))
    assert row.key == {"big integer": 2**53}
    assert (printed["map"], printed["struct"]) == ({"a": 1}, {"a": 1, "it's": None})
    assert printed["zoned"] == "2025-01-01 00:00:00+00"
    assert printed["zoned in a list"] == ["2025-01-01 00:00:00+00"]
    assert list(printed["map by date"]) == ["2025-01-01"]
    assert printed["decimal"] == "1E-38"


def test_nothing_is_left_in_the_temporary_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    diff([write("a*.parquet", id=[1])], [write(id=[2])], key=["id"])
    assert list(place.iterdir()) == []
