"""The query in a ledger is one that DuckDB runs as written, in the run's folder."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from tests.acceptance.conftest import FinishedRun, counted_by_query


def test_it_counts_every_key_of_the_reference_run(airline: FinishedRun) -> None:
    assert counted_by_query(airline.folder, "daily_revenue") == {
        "AGGREGATED": (345_000, 345_000),
        "FILTERED": (4_000, 4_000),
        "ERROR": (660, 660),
        "ALL": (349_660, 349_660),
    }


@pytest.fixture
def forged(airline: FinishedRun, tmp_path) -> FinishedRun:
    """The run's folder alone, to be tampered with."""
    folder = tmp_path / airline.reply["folder"]
    shutil.copytree(airline.folder, folder)
    return FinishedRun(tmp_path, airline.reply)


def test_a_key_that_was_taken_away_is_not_counted(forged: FinishedRun) -> None:
    part = min(forged.evidence("FILTERED").rglob("part-*.parquet"))
    pq.write_table(pq.ParquetFile(part).read().slice(1), part)
    found = counted_by_query(forged.folder, "daily_revenue")
    assert (found["FILTERED"], found["ALL"]) == ((3_999, 3_999), (349_659, 349_659))


def test_a_key_with_two_fates_is_counted_twice_and_is_one_key(forged: FinishedRun) -> None:
    letter = next(r for r in forged.rejections if r["context"]["rejection"] == "1/1")
    part = min(forged.evidence("FILTERED").rglob("part-*.parquet"))
    keys = pq.ParquetFile(part).read()
    pq.write_table(
        keys.set_column(
            keys.schema.get_field_index("source_key"),
            keys.schema.field("source_key"),
            [[letter["source_key"], *keys["source_key"].to_pylist()[1:]]],
        ),
        part,
    )
    assert counted_by_query(forged.folder, "daily_revenue")["ALL"] == (349_660, 349_659)


def test_a_lost_dead_letter_is_not_counted(forged: FinishedRun) -> None:
    file = min((forged.asset / "errors").rglob("*.jsonl"))
    lines = file.read_text().splitlines(keepends=True)
    assert json.loads(lines[0])["context"]["rejection"].startswith("1/")
    file.write_text("".join(lines[1:]))
    assert counted_by_query(forged.folder, "daily_revenue")["ERROR"] == (659, 659)
