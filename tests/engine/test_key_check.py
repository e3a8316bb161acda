"""Keys of an output are compared in this process, with little memory."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tallyman.engine.evidence import key_check
from tallyman.engine.evidence.key_check import KeyedOutput
from tallyman.engine.files import parquet

NO_SPARK = cast("SparkSession", None)
SCHEMA = StructType.fromJson(
    {
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in {"shop": "string", "number": "long"}.items()
        ]
    }
)
KEY = ("shop", "number")


def _output(home: Path, shops: list[str | None], numbers: list[int | None]) -> KeyedOutput:
    rows = pa.table({"shop": pa.array(shops, pa.string()), "number": pa.array(numbers, pa.int64())})
    parquet.write(rows, home / "output" / "part-0.parquet")
    (home / "scratch").mkdir()
    return KeyedOutput(NO_SPARK, home / "output", SCHEMA, home / "scratch")


@pytest.mark.parametrize(
    ("shops", "numbers", "differ"),
    [
        (["a", "a", "b"], [1, 2, 1], True),
        (["a", "a", "a"], [1, None, 2], True),
        ([None, "a", None], [1, 1, None], True),
        (["a", "b", "a"], [1, 1, 1], False),
        ([None, "a", None], [1, 1, 1], False),
        ([None, None], [None, None], False),
    ],
)
def test_a_null_is_a_value_like_any_other(
    tmp_path: Path, shops: list[str | None], numbers: list[int | None], differ: bool
) -> None:
    assert _output(tmp_path, shops, numbers).surely_differ(KEY) is differ


def test_keys_that_do_not_fit_into_memory_go_to_the_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1_000_000
    output = _output(tmp_path, ["a"] * count, list(range(count)))
    monkeypatch.chdir(tmp_path / "output")
    monkeypatch.setattr(key_check, "MEMORY", "24MB")
    assert output.surely_differ(KEY)
    assert [file.name for file in Path.cwd().iterdir()] == ["part-0.parquet"]
    (output.scratch / "keys").write_text("a file where the folder would be")
    assert not output.surely_differ(KEY)
