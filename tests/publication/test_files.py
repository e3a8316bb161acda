"""The files of a version: written once, checked by their checksums, named by nothing but ids."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.publication.conftest import ThreeHome

PASS_THROUGH = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(key="id", publish="visible_name")
def passed_through(raw):
    return raw
"""


def data_files(root: Path) -> list[Path]:
    """Files with the rows themselves, not with keys of them."""
    return [f for f in sorted(root.rglob("*.parquet")) if "n" in pq.read_schema(f).names]


def first_page(file: Path) -> int:
    """Somewhere inside the first data page."""
    column = pq.read_metadata(file).row_group(0).column(0)
    return column.data_page_offset + column.total_compressed_size // 2


def flip(file: Path, place: int) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 1
    file.write_bytes(damaged)


def test_a_version_is_the_files_that_spark_wrote_under_a_second_name(home: ThreeHome) -> None:
    home.pipeline(PASS_THROUGH).numbers(*range(500))
    made = home.ok("run")
    assert made["published"] == {"visible_name": 1}
    warehouse = home.path / "warehouse"
    published, written = data_files(warehouse), data_files(home.path / "runs")
    assert {f.stat().st_ino for f in published} == {f.stat().st_ino for f in written}
    assert {f.parent.name for f in written} == {"output"}
    # Write amplification: every byte of rows on this disk, over the bytes of the version.
    everywhere = {f.stat().st_ino: f.stat().st_size for f in data_files(home.path)}
    [version] = home.ok("versions", "visible_name")
    assert sum(everywhere.values()) / version["bytes"] == 1
    assert (version["rows"], version["files"]) == (500, len(published))
    named = [p for p in warehouse.rglob("*") if "visible" in p.name or "passed" in p.name]
    assert named == []

    # What the run proved is what the version has: one hash for both names.
    ledger = json.loads((home.path / made["folder"] / "passed_through/ledger.json").read_text())
    [[listed]] = home.query("SELECT files FROM fragments")
    hashes = {name: hashed for name, hashed in ledger["files"].items() if "output/" in name}
    assert sorted(hashes.values()) == sorted(file["sha256"] for file in listed)  # type: ignore[attr-defined]


def test_any_damage_to_a_file_of_any_version_is_found(home: ThreeHome, tmp_path: Path) -> None:
    home.pipeline(PASS_THROUGH).numbers(*range(300))
    home.ok("run")
    home.numbers(*range(200))
    home.ok("run")
    [old] = [f for f in data_files(home.path / "warehouse") if pq.read_metadata(f).num_rows == 300]
    whole = tmp_path / "whole.parquet"
    shutil.copyfile(old, whole)
    words = ("verify", "dataset", "visible_name", "--version", "1")
    assert home.ok(*words)["intact"] is True

    flip(old, first_page(old))
    with pytest.raises((OSError, pa.ArrowInvalid), match=r"(?i)crc|checksum"):
        pq.ParquetFile(old, page_checksum_verification=True).read()
    kinds = {}
    for name, harm in {
        "flipped": lambda: None,
        "truncated": lambda: old.write_bytes(whole.read_bytes()[:-10]),
        "missing": old.unlink,
    }.items():
        harm()
        reply = home.tallyman(*words)
        assert reply.code == 1, name
        [found] = reply.json["damaged"]
        assert found["shown"].endswith(old.name)
        kinds[name] = found["kind"]
    assert kinds == {"flipped": "changed", "truncated": "truncated", "missing": "missing"}
    assert home.ok("verify", "dataset", "visible_name")["intact"] is True  # the other version
    shutil.copyfile(whole, old)
    assert home.ok(*words)["intact"] is True
