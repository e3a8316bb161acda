"""Random JSON lines, read by us and by Python: the same values, or a rejection with the line."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.expressions.column_names import CORRUPT, KEY, PLACE
from tallyman.engine.files.listing import list_files
from tallyman.engine.source.open import open_source
from tests.world.scale import by_form

LINES = by_form(3_000, 200_000)
SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("n", LongType()),
        StructField("s", StringType()),
        StructField("l", ArrayType(LongType())),
        StructField("o", StructType([StructField("x", LongType())])),
    ]
)
TEXTS = ["", "a", '"', "\\", "}{", "é", "😀", "\u2028", " ", "null", "\\u0041", "a,b", "[1]"]
NUMBERS = [0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 1.0, 1.5, 1e3, True, "7", None, [1]]
BREAKS = ["", "}", "{", ",", ":", '"', "]", "\0", " x", "\\", "null", '{"id":"z"}', "\t", "\x1f"]


def line(random_: random.Random, number: int) -> str:
    record: dict[str, Any] = {
        "id": random_.choice([f"k{number}", *TEXTS[1:]]),
        "n": random_.choice(NUMBERS),
        "s": random_.choice(TEXTS),
        "l": random_.choice([[], [1, 2], [None], None]),
        "o": random_.choice([{}, {"x": 1}, {"x": None, "y": 2}, None]),
        "more": random_.choice([1, "x", {"id": "inner"}]),
    }
    kept = random_.sample(list(record.items()), random_.randrange(1, len(record) + 1))
    spaces = random_.choice([(",", ":"), (", ", ": ")])
    text = json.dumps(dict(kept), separators=spaces, ensure_ascii=random_.random() < 0.5)
    if random_.random() < 0.2:
        at = random_.randrange(len(text) + 1)
        cut = at + random_.randrange(3)
        text = text[:at] + random_.choice(BREAKS) + text[cut:]
    return text.replace("\n", " ")


def expected(text: str) -> dict[str, Any] | None:
    """What the line declares, or None where Python does not read one object without doubt."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None  # half of a character
    return found if isinstance(found, dict) else None


def fits(value: object, kind: str) -> bool:
    """True if a JSON value is one of the declared type, beyond any reader's doubt."""
    match kind:
        case "n":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return value is None or (whole and -(2**63) <= value < 2**63)
        case "l":
            return value is None or (isinstance(value, list) and all(fits(v, "n") for v in value))
        case "o":
            return value is None or (isinstance(value, dict) and fits(value.get("x"), "n"))
        case _:
            return value is None or isinstance(value, str)


def test_any_line_is_read_as_python_reads_it_or_rejected(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    random_ = random.Random(seed)
    texts = [line(random_, number) for number in range(LINES)]
    (tmp_path / "data.jsonl").write_bytes("".join(f"{text}\n" for text in texts).encode())
    source = Source(name="s", path="data.jsonl", format="json", schema="", key=())
    given = open_source(spark, source, SCHEMA, list_files("s", "data.jsonl", tmp_path))
    rows = given.records().collect()
    lines = [text for text in texts if text.strip(" \t\r")]
    assert len(rows) == len(lines) == given.measured().digest.count
    accepted = 0
    for row in rows:
        text = texts[int(row[KEY].rpartition("#")[2]) - 1]
        if row[CORRUPT] is not None:
            found = expected(text)
            sound = found is not None and all(fits(found.get(name), name) for name in SCHEMA.names)
            # A NUL, another control character or a name twice is for each reader to judge.
            assert not sound or any(c < " " for c in text) or text.count('"id"') > 1, text
            continue
        accepted += 1
        found = expected(text)
        assert found is not None or _lenient(text), text
        for name in SCHEMA.names if found is not None else ():
            _check(name, found.get(name), row[name], text)
    assert accepted > LINES // 4


ODD = [
    *"\0\b\t\x0b\x0c\x1a\x1f\x7f\x85\xa0\u200b\u2028\u2029\u3000\ufeff \\'\"/,:{}[]-0x",
    "\\u", "\\u0022", "\\ud83d", "null", "1e999", "//", "/**/", "#",
]  # fmt: skip
WHOLE = '{"id":"k7","n":7,"day":"2026-01-07"}'
FIRST = {"quoted": '{"id":"k1","n":1}', "bare": '{"id":1,"n":1}', "absent": '{"n":1}'}


@pytest.mark.parametrize("first", FIRST)
def test_a_key_is_the_same_whichever_fields_are_typed(
    spark: SparkSession, tmp_path: Path, first: str
) -> None:
    """An odd character at each position of a line, inserted and in place of another."""
    places = range(len(WHOLE) + 1)
    texts = [WHOLE[:at] + odd + WHOLE[at + cut :] for odd in ODD for at in places for cut in (0, 1)]
    texts = [FIRST[first], *texts, *(WHOLE[:at] for at in places[1:])]
    (tmp_path / "data.jsonl").write_bytes("".join(f"{text}\n" for text in texts).encode())
    schema = StructType.fromDDL("id string, n int, day date")
    source = Source(name="s", path="data.jsonl", format="json", schema="", key=("id",))
    given = open_source(spark, source, schema, list_files("s", "data.jsonl", tmp_path))
    records = given.with_places("s").records().select(KEY, PLACE, CORRUPT).collect()
    assert len(records) == len(texts)
    typed, untyped = Counter(row[KEY] for row in records), Counter(collected(given.keys()))
    assert typed == untyped
    assert Counter(collected(given.records(["n"]))) == typed
    for row in records:
        number = int(row[PLACE].rpartition("#")[2])
        found = expected(texts[number - 1])
        if found is not None and isinstance(found.get("id"), str) and row[CORRUPT] is None:
            assert row[KEY] == found["id"], texts[number - 1]


def collected(rows: DataFrame) -> list[str]:
    return [row[KEY] for row in rows.select(KEY).collect()]


def _check(name: str, meant: Any, read: Any, text: str) -> None:
    if name == "o":
        read = None if read is None else read["x"]
        meant = meant.get("x") if isinstance(meant, dict) else meant
        if not fits(meant, "n"):
            return
    if name == "s" and not isinstance(meant, str):
        return  # any value has a text
    if name == "id" and not isinstance(meant, str):
        return
    if fits(meant, "n" if name in ("n", "o") else name):
        assert read == meant, (name, text)
    else:
        assert read is None or float(read) == float(meant), (name, text)


def _lenient(text: str) -> bool:
    """True for what Spark reads and Python does not: single quotes, and numbers such as 01."""
    return "'" in text or any(c < " " for c in text)
