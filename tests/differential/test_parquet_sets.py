"""Random Parquet sets: what we read is what pyarrow reads, or the set or the record is refused.

The oracle reads each file with pyarrow and works with Python values alone: it knows neither Spark
nor our rule for types. A value that we show must be equal to the file's; a value that is not there
must be missing from the file, or its record must be among the unfit ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.expressions.column_names import KEY, UNFIT, quoted
from tallyman.engine.files.listing import list_files
from tallyman.engine.files.parquet_set import ParquetSet
from tallyman.engine.readback.open import OpenRecords
from tallyman.engine.readback.session import DuckSession
from tallyman.engine.source.open import declared_schema, open_source
from tallyman.engine.source.parquet_input import ParquetInput
from tallyman.errors import DefinitionError
from tests.world import scale

CASES = 400 if scale.FULL else 30
SEEDS = scale.some(range(CASES), 12)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Make = Callable[[random.Random], Any]


def whole(bits: int) -> Make:
    edges = (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    return lambda r: r.choice([*edges, r.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)])


def decimals(precision: int, scale: int) -> Make:
    most = 10**precision - 1
    return lambda r: Decimal(r.randint(-most, most)).scaleb(-scale)


def nanoseconds(r: random.Random) -> int:
    count = r.randint(-(2**62), 2**62)
    return count if r.random() < 0.2 else count // 1_000 * 1_000


LEAVES: list[tuple[pa.DataType, Make]] = [
    (pa.int8(), whole(8)),
    (pa.int16(), whole(16)),
    (pa.int32(), whole(32)),
    (pa.int64(), whole(64)),
    (pa.int64(), lambda r: r.randint(-(2**53), 2**53)),
    (pa.uint8(), lambda r: r.randint(0, 2**8 - 1)),
    (pa.uint32(), lambda r: r.randint(0, 2**32 - 1)),
    (pa.uint64(), lambda r: r.randint(0, 2**64 - 1)),
    (pa.float32(), lambda r: r.choice([0.5, -1.25, math.inf, 16_777_216.0])),
    (pa.float64(), lambda r: r.choice([0.1, -1e300, math.inf, r.random()])),
    (pa.decimal128(5, 2), decimals(5, 2)),
    (pa.decimal128(12, 4), decimals(12, 4)),
    (pa.decimal128(38, 0), decimals(38, 0)),
    (pa.string(), lambda r: r.choice(["", "a", "é\n", "null"])),
    (pa.large_string(), lambda r: r.choice(["b", "c"])),
    (pa.dictionary(pa.int32(), pa.string()), lambda r: r.choice(["d", "e"])),
    (pa.binary(), lambda r: r.randbytes(3)),
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.date32(), lambda r: r.randint(-719_162, 2_932_896)),
    (pa.date32(), lambda r: r.choice([2_932_897, -800_000, 0])),
    (pa.timestamp("ms"), lambda r: r.randint(-(2**40), 2**40)),
    (pa.timestamp("us"), lambda r: r.randint(-(2**50), 2**55)),
    (pa.timestamp("us", "UTC"), lambda r: r.choice([253_402_300_800_000_000, 0, -1, 1])),
    (pa.timestamp("ns"), nanoseconds),
    (pa.timestamp("ns", "UTC"), nanoseconds),
    (pa.time64("us"), lambda r: r.randint(0, 1_000)),
    (pa.duration("us"), lambda r: r.randint(0, 1_000)),
    (pa.null(), lambda r: None),
]
PAIRS = [
    (1, 3),
    (2, 4),
    (3, 4),
    (4, 9),
    (2, 9),
    (0, 8),
    (10, 11),
    (2, 12),
    (21, 23),
    (22, 24),
    (8, 9),
]
"""Leaves that meet more often than chance would have it: most of them widen."""


def kind_of(r: random.Random, depth: int = 0) -> tuple[pa.DataType, Make]:
    choice = r.random()
    if depth < 2 and choice < 0.1:
        fields = {name: kind_of(r, depth + 1) for name in r.sample("xyz", r.randint(1, 3))}
        kinds = pa.struct([(name, kind) for name, (kind, _) in fields.items()])
        return kinds, lambda r: {name: some(r, make) for name, (_, make) in fields.items()}
    if depth < 2 and choice < 0.18:
        kind, make = kind_of(r, depth + 1)
        return pa.list_(kind), lambda r: [some(r, make) for _ in range(r.randint(0, 2))]
    if depth < 2 and choice < 0.22:
        kind, make = kind_of(r, depth + 1)
        return pa.map_(pa.string(), kind), lambda r: [("m", some(r, make))]
    return r.choice(LEAVES)


def some(r: random.Random, make: Make) -> Any:
    return None if r.random() < 0.2 else make(r)


def column_kinds(r: random.Random, files: int) -> list[tuple[pa.DataType, Make] | None]:
    """The types of one column in each file; None where the file lacks it."""
    if r.random() < 0.4:
        pool = [LEAVES[n] for n in r.choice(PAIRS)]
    else:
        pool = [kind_of(r)]
        if r.random() < 0.15:
            pool.append(kind_of(r))
    return [None if r.random() < 0.25 else r.choice(pool) for _ in range(files)]


def write_set(r: random.Random, home: Path) -> None:
    files = r.randint(1, 4)
    columns = {name: column_kinds(r, files) for name in ("a", "b", "Odd. `name`")}
    number = 0
    for n in range(files):
        rows = r.randint(1, 4)
        made: dict[str, pa.Array] = {"id": pa.array(range(number, number + rows), pa.int32())}
        for name, kinds in columns.items():
            if (found := kinds[n]) is not None:
                kind, make = found
                made[name] = pa.array([some(r, make) for _ in range(rows)], kind)
        number += rows
        pq.write_table(pa.table(made), home / f"f{n}.parquet")


# ---- the oracle -----------------------------------------------------------------------------


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of pyarrow as exact Python values: times as counts of nanoseconds."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        return {f.name: plain(value[f.name], f.type) for f in kind}
    if pa.types.is_list(kind):
        return [plain(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return {key: plain(one, kind.item_type) for key, one in value}
    return value


def counted(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column, with dates and times as counts."""
    kind = as_counts(column.type)
    return [plain(value, kind) for value in column.cast(kind).to_pylist()]


UNITS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def as_counts(kind: pa.DataType) -> pa.DataType:
    """The type with numbers in place of dates and times, whose bytes are the same."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, as_counts(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(as_counts(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, as_counts(kind.item_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def same(ours: Any, theirs: Any, kind: pa.DataType) -> bool:
    """True if our value is the file's, whatever type it was widened to."""
    if theirs is None or ours is None:
        return theirs is None and ours is None
    if pa.types.is_struct(kind):
        known = {f.name: f.type for f in kind}
        return all(
            same(value, theirs.get(name), known[name]) if name in known else value is None
            for name, value in ours.items()
        )
    if pa.types.is_list(kind):
        pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else [(0, None)]
        return all(same(a, b, kind.value_type) for a, b in pairs)
    if pa.types.is_map(kind):
        return ours.keys() == theirs.keys() and all(
            same(ours[k], theirs[k], kind.item_type) for k in ours
        )
    if pa.types.is_timestamp(kind):
        return micros(ours) * 1_000 == theirs * UNITS[kind.unit]
    if pa.types.is_date32(kind):
        return (ours - date(1970, 1, 1)).days == theirs
    if isinstance(theirs, bytes):
        return bytes(ours) == theirs
    return (
        type(ours) is not str and ours == theirs if not isinstance(theirs, str) else ours == theirs
    )


def micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def must_refuse(value: Any, kind: pa.DataType) -> bool:
    """True if no output can hold the value, by the calendar and the clock alone."""
    if value is None:
        return False
    if pa.types.is_struct(kind):
        return any(must_refuse(value[f.name], f.type) for f in kind)
    if pa.types.is_list(kind):
        return any(must_refuse(one, kind.value_type) for one in value)
    if pa.types.is_map(kind):
        return any(must_refuse(one, kind.item_type) for one in value.values())
    if pa.types.is_date32(kind):
        return not -719_162 <= value <= 2_932_896
    if pa.types.is_timestamp(kind):
        count = value * UNITS[kind.unit]
        first, last = -62_135_596_800 * 10**9, 253_402_300_800 * 10**9
        return count % 1_000 != 0 or not first <= count < last
    return False


# ---- the comparison -------------------------------------------------------------------------


def tables_in(home: Path) -> list[pa.Table]:
    return [pq.read_table(file) for file in sorted(home.glob("*.parquet"))]


def test_a_set_is_read_as_pyarrow_reads_it_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, read = Source(name="s", path=".", format="parquet", key=("id",)), 0
    for seed in SEEDS:
        home = tmp_path / f"seed_{seed}"
        home.mkdir()
        write_set(random.Random(seed), home)
        try:
            declared_schema(spark, source, home)
        except DefinitionError as error:
            check_refusal(error, tables_in(home))
            continue
        compare(spark, source, home)
        read += 1
    assert read > len(SEEDS) // 3


NUMBERS = ("int", "bigint", "double", "decimal(25,4)", "decimal(38,0)")


def test_a_declared_schema_is_read_without_loss_or_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    read = sum(_read_as_declared(spark, tmp_path / f"seed_{seed}", seed) for seed in SEEDS)
    assert read > len(SEEDS) // 3


def _read_as_declared(spark: SparkSession, home: Path, seed: int) -> bool:
    """Declare some columns otherwise; true if the set is read, false if it is rightly refused."""
    r = random.Random(CASES + seed)
    home.mkdir()
    write_set(r, home)
    merged, misfits = ParquetSet(list_files("s", ".", home)).union()
    failed = {misfit.column for misfit in misfits}
    kinds = {"id": r.choice(("int", "bigint", "decimal(12,1)"))}
    for name in (name for name in merged if name != "id"):
        wider = r.random() < 0.5 and str(merged[name]) in ("tinyint", "smallint", "int", "bigint")
        kinds[name] = r.choice(NUMBERS) if name in failed or wider else str(merged[name])
    schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())
    source = Source(name="s", path=".", format="parquet", key=("id",), schema=schema)
    try:
        compare(spark, source, home)
    except DefinitionError as error:
        for problem in error.problems:
            assert "is declared" in problem.message, problem
            assert ".parquet'" in problem.message, problem
            name = problem.message.removeprefix("column '").partition("' is")[0]
            assert kinds[name] != str(merged[name]) or name in failed, problem
        return False
    return True


def compare(spark: SparkSession, source: Source, home: Path) -> None:
    """Open the set, and compare every value of every record with the files."""
    tables, schema = tables_in(home), declared_schema(spark, source, home)
    opened = open_source(spark, source, schema, list_files("s", ".", home))
    assert isinstance(opened, ParquetInput)
    check_missing(opened, tables)
    rows = opened.records()
    unfit = f"map_keys({UNFIT})" if UNFIT in rows.columns else "NULL"
    shown = rows.selectExpr("*", f"{unfit} AS unfit").drop(UNFIT)
    # Python has no dates outside the years 1 to 9999: such a record is only counted.
    found = {int(row["id"]): row for row in shown.where("unfit IS NULL").collect()}
    others = shown.where("unfit IS NOT NULL").select("id", "unfit").collect()
    refused = {int(row["id"]): set(row["unfit"]) for row in others}
    counts = {f.name for f in schema if f.dataType.simpleString() == "bigint"}
    for table in tables:
        columns = {name: counted(table[name]) for name in table.column_names}
        kinds = {
            name: as_counts(table.schema.field(name).type)
            if name in counts
            else table.schema.field(name).type
            for name in columns
        }
        for n, key in enumerate(columns["id"]):
            wrong = {name for name in columns if must_refuse(columns[name][n], kinds[name])}
            assert refused.get(key, set()) == wrong, key
            if wrong:
                continue
            row = found[key].asDict(recursive=True)
            assert row[KEY] == str(row["id"])
            for name in schema.names:
                theirs = columns[name][n] if name in columns else None
                kind = kinds.get(name, pa.null())
                assert same(row[name], theirs, kind), (key, name, row[name], theirs)
    assert len(found) + len(refused) == opened.at_most() == sum(t.num_rows for t in tables)
    check_readback(source, home, opened, {row[KEY]: row.asDict() for row in found.values()})


def check_refusal(error: DefinitionError, tables: list[pa.Table]) -> None:
    """A refusal names a column, and there is a reason: two types, no type, or one Spark lacks."""
    for problem in error.problems:
        assert problem.message.startswith("column "), problem
        name = problem.message.partition("'")[2].partition("':")[0]
        kinds = {str(t.schema.field(name).type) for t in tables if name in t.column_names}
        odd = any(word in kind for kind in kinds for word in ("null", "time64", "duration"))
        assert len(kinds) > 1 or odd, (problem, kinds)
        assert ".parquet'" in problem.message, problem


def check_missing(opened: ParquetInput, tables: list[pa.Table]) -> None:
    for name in opened.schema.names:
        lacking = sum(t.num_rows for t in tables if name not in t.column_names)
        assert opened.missing_columns.get(name, 0) == lacking


def check_readback(
    source: Source, home: Path, opened: ParquetInput, rows: dict[str, dict[str, Any]]
) -> None:
    """What `why` shows of a record has the values that the run read."""
    plainly = [f.name for f in opened.schema if f.dataType.simpleString() in SHOWN]
    with DuckSession() as duck:
        records = OpenRecords(duck).source(source, list_files("s", ".", home))
        keys = duck.keep("SELECT unnest($k) AS k, NULL AS p", {"k": list(rows)})
        for record in records.shown(records.by_keys(keys), None):
            ours = rows[record.key]
            for name in plainly:
                assert text(record.values[name]) == text(ours[name]), (name, record)


SHOWN = {
    *("bigint", "int", "smallint", "tinyint", "double", "date", "string"),
    *("timestamp", "timestamp_ntz"),
}


def text(value: Any) -> str:
    if isinstance(value, datetime):
        return str(micros(value))
    return str(float(value)) if isinstance(value, (int, float, Decimal)) else str(value)
