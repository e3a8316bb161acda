"""Lines that DuckDB would count or read differently from Spark keep their number and their key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tallyman.domain.history.asked_row import asked_row
from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.files.listing import list_files
from tallyman.engine.readback.open import OpenRecords
from tallyman.engine.readback.records import Records
from tallyman.engine.readback.session import DuckSession


@pytest.fixture
def opened_records() -> Iterator[OpenRecords]:
    with DuckSession() as duck, closing(OpenRecords(duck)) as opened_records:
        yield opened_records


def opened(
    opened_records: OpenRecords, folder: Path, content: bytes, *, kind: str, schema: str
) -> Records:
    (folder / "data.txt").write_bytes(content)
    source = Source(name="s", path="data.txt", format=kind, schema=schema, key=("id",))
    return opened_records.source(source, list_files("s", "data.txt", folder))


def places(records: Records, **wanted: str) -> list[tuple[str | None, int | None]]:
    return [(r.key, r.line) for r in records.shown(records.matching(asked_row(wanted)), None)]


JSON = b"""{"id": "a", "n": 1}\r

{"id": "b", "n": 1, "t": "\xff\xfe"}
\t
{"id": "c\\"d", "n": 1}
{"id": "cut", "n": 1, "t": "
{"n": 1}
"""


def test_json_lines_of_every_kind(opened_records: OpenRecords, tmp_path: Path) -> None:
    records = opened(
        opened_records, tmp_path, JSON, kind="json", schema="id string, n int, t string"
    )
    assert places(records, n="1") == [
        ("@data.txt#7", 7),
        ("a", 1),
        ("b", 3),
        ('c"d', 5),
        ("cut", 6),
    ]
    assert places(records, id="cut") == [("cut", 6)]
    keys = opened_records.duck.keep(
        "SELECT unnest(['cut', '@data.txt#7', 'nobody']) AS k, NULL AS p"
    )
    assert [(r.key, r.line) for r in records.shown(records.by_keys(keys), None)] == [
        ("@data.txt#7", 7),
        ("cut", 6),
    ]


def test_csv_fields_with_quotes_separators_and_nothing(
    opened_records: OpenRecords, tmp_path: Path
) -> None:
    content = b'id,name\n1,"Smith, ""Al"""\n2,\n\n03,"x"\n'
    records = opened(opened_records, tmp_path, content, kind="csv", schema="id int, name string")
    assert places(records, name='Smith, "Al"') == [("1", 2)]
    assert places(records, name="null") == [("2", 3)]
    assert places(records, id="3") == [("3", 5)]  # as Spark types it, whatever its text
