"""Random CSV files, read by us and by independent readers: the same rows, or a rejection with the
line; never a third thing."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.expressions.column_names import CORRUPT, KEY
from tallyman.engine.files.listing import list_files
from tallyman.engine.readback.open import OpenRecords
from tallyman.engine.readback.session import DuckSession
from tallyman.engine.source.open import open_source
from tests.differential.csv_oracle import read, records
from tests.world.scale import by_form, some

FILES = by_form(60, 5_000)
PIECES = 40
COLUMNS = ("a", "b")
SCHEMA = StructType([StructField(name, StringType()) for name in COLUMNS])
Row = tuple[str | None, ...]
Found = dict[tuple[str, int], Row | None]


def opened(**options: str) -> Source:
    given = {"header": "false", **options}
    return Source(
        name="s", path="data", format="csv", schema="a string, b string", key=(), options=given
    )


def as_spark_reads(spark: SparkSession, folder: Path, source: Source) -> Found:
    given = open_source(spark, source, SCHEMA, list_files("s", "data", folder))
    rows = given.records().collect()
    door = given.measured()
    assert door.digest.count == len(rows), "the door counts what is read"
    found: Found = {}
    for row in rows:
        name, _, line = row[KEY].removeprefix("@").rpartition("#")
        assert (name, int(line)) not in found, "one place, one record"
        found[name, int(line)] = None if row[CORRUPT] is not None else (row["a"], row["b"])
    return found


def as_why_reads(folder: Path, source: Source) -> Found:
    with DuckSession() as duck, closing(OpenRecords(duck)) as all_records:
        held = all_records.source(source, list_files("s", "data", folder))
        shown = held.shown(held.matching({}), None)
        found: Found = {}
        for record in shown:
            values = record.values
            row = tuple(values[name] or None for name in COLUMNS) if "a" in values else None
            found[str(record.file), int(record.line or 0)] = row
        whole = {place: row for place, row in found.items() if row and None not in row}
        for (name, line), row in sorted(whole.items(), key=str)[:: len(whole) // 3 + 1]:
            wanted = dict(zip(COLUMNS, map(str, row), strict=True))
            asked = held.shown(held.matching(wanted), None)
            assert (name, line) in {(record.file, record.line) for record in asked}
    return found


def as_oracle_reads(folder: Path, *dialect: str) -> Found:
    found: Found = {}
    for file in sorted((folder / "data").iterdir()):
        rows = read(file.read_bytes().decode(), *dialect)
        found |= {(file.name, line): row for line, row in records(rows, len(COLUMNS))}
    return found


def write(folder: Path, texts: Sequence[str]) -> None:
    (folder / "data").mkdir()
    for number, text in enumerate(texts):
        (folder / "data" / f"{number}.csv").write_bytes(text.encode())


def differences(left: Found, right: Found) -> dict[tuple[str, int], tuple[object, object]]:
    places = sorted({*left, *right})
    return {
        place: (left.get(place, "nothing"), right.get(place, "nothing"))
        for place in places
        if left.get(place, "nothing") != right.get(place, "nothing")
    }


def nasty(random_: random.Random, separator: str, escape: str) -> str:
    """Make a text of the characters that matter, of broken lines, and of whole records."""
    pieces = ['"', '""', '","', separator, "\n", "\r\n", "a", " ", "é", f'{escape}"', escape * 2]
    if random_.random() < 0.5:
        pieces += [f"x{separator}y\n", f'"x"{separator}"y"\n', f'"x\ny"{separator}1\n'] * 2
    if random_.random() < 0.1:
        pieces += ["\0", "\r", "#", "\\"]
    return "".join(random_.choices(pieces, k=random_.randrange(1, PIECES)))


@pytest.mark.parametrize(
    ("separator", "quote", "escape"),
    some(
        [(",", '"', '"'), (";", '"', '"'), ("|", "'", "'"), (",", '"', "\\"), ("||", '"', '"')],
        2,
    ),
)
def test_any_text_is_read_as_the_standard_says(
    spark: SparkSession, tmp_path: Path, separator: str, quote: str, escape: str, seed: int
) -> None:
    random_ = random.Random(f"{seed} {separator}{quote}{escape}")
    texts = [nasty(random_, separator, escape).replace('"', quote) for _ in range(FILES)]
    write(tmp_path, texts)
    source = opened(sep=separator, quote=quote, escape=escape)
    expected = as_oracle_reads(tmp_path, separator, quote, escape)
    assert any(expected.values())
    assert None in expected.values()
    assert not differences(expected, as_spark_reads(spark, tmp_path, source))
    assert not differences(expected, as_why_reads(tmp_path, source))


VALUES = [
    "",
    "a",
    "a,b",
    'say "hi"',
    '"',
    '""',
    "two\nlines",
    "three\n\nlines",
    "\r\n",
    " x ",
    "é",
    "'",
]


def by_python(quoting: int, end: str) -> Callable[[list[Row]], str]:
    def written(rows: list[Row]) -> str:
        target = io.StringIO(newline="")
        csv.writer(target, quoting=quoting, lineterminator=end).writerows(rows)
        return target.getvalue()

    return written


def by_duckdb(rows: list[Row], folder: Path) -> str:
    path = folder / "by_duckdb.csv"
    with duckdb.connect() as db:
        db.register("rows", pa.table({n: [r[i] for r in rows] for i, n in enumerate(COLUMNS)}))
        db.execute(f"COPY rows TO '{path}' (HEADER false)")
    return path.read_bytes().decode()


def by_pyarrow(rows: list[Row], folder: Path) -> str:
    path = folder / "by_pyarrow.csv"
    table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(COLUMNS)})
    pa_csv.write_csv(table, path, pa_csv.WriteOptions(include_header=False))
    return path.read_bytes().decode()


def test_what_other_programs_write_is_read_back_whole(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    random_ = random.Random(seed)
    writers: list[Callable[[list[Row]], str]] = [
        by_python(csv.QUOTE_MINIMAL, "\n"),
        by_python(csv.QUOTE_MINIMAL, "\r\n"),
        by_python(csv.QUOTE_ALL, "\r\n"),
        lambda rows: by_duckdb(rows, tmp_path),
        lambda rows: by_pyarrow(rows, tmp_path),
    ]
    given: dict[str, list[Row]] = {}
    texts: list[str] = []
    for number in range(FILES):
        count = random_.randrange(1, 8)
        rows: list[Row] = [
            (f"k{n}", "".join(random_.choices(VALUES, k=random_.randrange(3))))
            for n in range(count)
        ]
        texts.append(random_.choice(writers)(rows))
        given[f"{number}.csv"] = [tuple(value or None for value in row) for row in rows]
    write(tmp_path, texts)
    source = opened()
    for found in (as_spark_reads(spark, tmp_path, source), as_why_reads(tmp_path, source)):
        read_back: dict[str, list[Row | None]] = {name: [] for name in given}
        for (name, _), row in sorted(found.items()):
            read_back[name].append(row)
        assert read_back == given
