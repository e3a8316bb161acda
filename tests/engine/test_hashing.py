"""One hash of an input, wherever it is computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tallyman.engine.files import hashing
from tallyman.engine.files.hashing import hash_there, hasher_for
from tallyman.engine.files.listing import hash_here, list_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ["a.json", "day=1/b.json", "day=1/c d.json", "x[1].json", "ü%20.json", "empty.json"]
    for number, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"" if name == "empty.json" else bytes([number]) * (10 + number))
    return tmp_path


def test_executors_and_this_process_agree(spark: SparkSession, folder: Path) -> None:
    files = list_files("a", ".", folder)
    assert len(files.files) == 6
    assert hash_there(spark, files.files) == hash_here(files.files)


def test_a_file_too_large_to_hand_over_whole_is_hashed_here(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list_files("a", ".", folder)
    monkeypatch.setattr(hashing, "WHOLE", 11)
    assert hash_there(spark, files.files) == hash_here(files.files)


def test_spark_is_asked_only_on_a_cluster_and_for_much(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def started() -> SparkSession:
        asked.append("spark")
        return spark

    files = list_files("a", ".", folder)
    small = replace(files, hasher=hasher_for("spark://cluster:7077", started)).content_hash
    assert not asked
    monkeypatch.setattr(hashing, "LARGE", 1)
    local = replace(files, hasher=hasher_for("local[2]", started)).content_hash
    assert not asked
    there = replace(files, hasher=hasher_for("spark://cluster:7077", started)).content_hash
    assert asked == ["spark"]
    assert small == local == there == files.content_hash


def test_the_order_in_which_files_are_listed_does_not_matter(folder: Path) -> None:
    files = list_files("a", ".", folder)
    turned = replace(files, files=tuple(reversed(files.files)))
    assert turned.content_hash == files.content_hash


def test_a_name_counts_and_so_does_every_byte(folder: Path) -> None:
    before = list_files("a", ".", folder).content_hash
    (folder / "a.json").rename(folder / "renamed.json")
    renamed = list_files("a", ".", folder).content_hash
    (folder / "renamed.json").rename(folder / "a.json")
    content = bytearray((folder / "a.json").read_bytes())
    content[3] ^= 1
    (folder / "a.json").write_bytes(content)
    assert len({before, renamed, list_files("a", ".", folder).content_hash}) == 3
