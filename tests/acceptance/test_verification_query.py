"""The query in a ledger is one that DuckDB runs as written, in the run's folder."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.acceptance.conftest import SMALL, FinishedRun, Scenario, counted_by_query

Counts = dict[str, tuple[int, int]]


def test_it_counts_every_key_of_the_reference_run(airline: FinishedRun) -> None:
    assert counted_by_query(airline.folder, "daily_revenue") == {
        "AGGREGATED": (345_000, 345_000),
        "FILTERED": (4_000, 4_000),
        "ERROR": (660, 660),
        "ALL": (349_660, 349_660),
    }


@pytest.fixture
def forged(small: FinishedRun, tmp_path) -> FinishedRun:
    """The run's folder alone, to be tampered with."""
    folder = tmp_path / small.reply["folder"]
    shutil.copytree(small.folder, folder)
    return FinishedRun(tmp_path, small.reply)


@pytest.fixture
def before(small: FinishedRun) -> Counts:
    found = counted_by_query(small.folder, "daily_revenue")
    fates = {fate: (count, count) for fate, count in Scenario(SMALL).fates.items()}
    assert found == {**fates, "ALL": (SMALL, SMALL)}
    return found


def test_a_key_that_was_taken_away_is_not_counted(forged: FinishedRun, before: Counts) -> None:
    part = min(forged.evidence("FILTERED").rglob("part-*.parquet"))
    pq.write_table(pq.ParquetFile(part).read().slice(1), part)
    found = counted_by_query(forged.folder, "daily_revenue")
    for fate in ("FILTERED", "ALL"):
        assert found[fate] == (before[fate][0] - 1, before[fate][1] - 1)


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
    assert counted_by_query(forged.folder, "daily_revenue")["ALL"] == (SMALL, SMALL - 1)


def test_a_lost_dead_letter_is_not_counted(forged: FinishedRun, before: Counts) -> None:
    file = min((forged.asset / "errors").rglob("*.jsonl"))
    lines = file.read_text().splitlines(keepends=True)
    assert json.loads(lines[0])["context"]["rejection"].startswith("1/")
    file.write_text("".join(lines[1:]))
    records, keys = before["ERROR"]
    assert counted_by_query(forged.folder, "daily_revenue")["ERROR"] == (records - 1, keys - 1)
