"""Whatever happens to a published file is found and told."""

import hashlib
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.engine.files import intact
from tallyman.engine.files.intact import Damage, Expected, damaged

ROWS = 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two row groups, with page checksums as Spark writes them."""
    path = tmp_path / "part.parquet"
    table = pa.table({"id": range(ROWS), "name": [f"name {n}" for n in range(ROWS)]})
    pq.write_table(table, path, row_group_size=ROWS // 2, write_page_checksum=True)
    return path


@pytest.fixture
def expected(file: Path) -> Expected:
    return described(file, ROWS)


def described(path: Path, rows: int) -> Expected:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Expected(str(path), f"shown/{path.name}", digest, len(content), rows)


def only(found: list[Damage]) -> Damage:
    assert len(found) == 1
    assert found[0].shown == "shown/part.parquet"
    return found[0]


def test_a_file_nobody_touched_is_intact(expected: Expected) -> None:
    assert damaged([expected]) == []
    assert damaged([]) == []
    assert damaged([replace(expected, sha256=expected.sha256.upper())]) == []


def test_any_flipped_byte_is_found(file: Path, expected: Expected) -> None:
    content = file.read_bytes()
    told: set[str] = set()
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 0xFF
        file.write_bytes(broken)
        found = only(damaged([expected]))
        assert found.kind == "changed", place
        assert f"expected {expected.sha256[:12]}…" in found.detail
        told.add(found.detail.partition("; ")[2].partition(" (")[0])
    assert "its footer is unreadable" in told
    assert {"a page in row group 0 is corrupt", "a page in row group 1 is corrupt"} <= told


def test_a_change_no_page_tells_of_is_still_a_change(expected: Expected) -> None:
    found = only(damaged([replace(expected, sha256="0" * 64)]))
    assert (found.kind, "all its pages can be read" in found.detail) == ("changed", True)


def test_a_file_replaced_by_one_with_other_rows_tells_how_many(expected: Expected) -> None:
    found = only(damaged([replace(expected, sha256="0" * 64, rows=39)]))
    assert found.detail.endswith("; it holds 40 rows, expected 39")


def test_a_changed_file_of_another_format_is_told_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("{}")
    known = described(path, 0)
    path.write_text("[]")
    (found,) = damaged([known])
    assert found.kind == "changed"
    assert found.detail.endswith(f"expected {known.sha256[:12]}…")


@pytest.mark.parametrize("left", [0, 1, 4, 0.5, -8, -1])
def test_a_truncated_file_is_found(file: Path, expected: Expected, left: float) -> None:
    size = int(left if left >= 1 else expected.bytes * left if left >= 0 else expected.bytes + left)
    os.truncate(file, size)
    found = only(damaged([expected]))
    assert found.kind == "truncated"
    assert found.detail == f"{size:,} bytes, expected {expected.bytes:,}; it held 40 rows"


@pytest.mark.parametrize("more", [b"\0", b"PAR1", b"x" * 5000])
def test_a_grown_file_is_found(file: Path, expected: Expected, more: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(more)
    assert only(damaged([expected])).kind == "grown"


def test_a_deleted_file_is_missing(file: Path, expected: Expected) -> None:
    file.unlink()
    found = only(damaged([expected]))
    assert (found.kind, found.detail) == ("missing", "no such file; it held 40 rows")


def test_a_file_whose_folder_is_gone_or_no_folder_is_missing(
    file: Path, expected: Expected
) -> None:
    inside = replace(expected, path=f"{file}/inside.parquet")
    nowhere = replace(expected, path=f"{file.parent}/gone/part.parquet")
    assert [found.kind for found in damaged([inside, nowhere])] == ["missing", "missing"]


def test_a_directory_in_its_place_is_told(file: Path, expected: Expected) -> None:
    file.unlink()
    file.mkdir()
    assert only(damaged([expected])) == Damage(
        "shown/part.parquet", "unreadable", "a directory is in its place"
    )


def test_a_pipe_or_socket_in_its_place_is_told_and_not_waited_for(
    file: Path, expected: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    os.mkfifo(file)
    assert only(damaged([expected])).kind == "unreadable"
    file.unlink()
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(file.name)
        assert only(damaged([expected])).kind == "unreadable"


def test_an_error_of_the_disk_is_told(expected: Expected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a broken disk reads like this, so the read itself is replaced."""

    def broken(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hashlib, "file_digest", broken)
    assert only(damaged([expected])) == Damage(
        "shown/part.parquet", "unreadable", "Permission denied"
    )


def test_a_path_no_system_can_open_is_told(expected: Expected) -> None:
    long, nul = replace(expected, path="/" + "x" * 5000), replace(expected, path="/a\0b")
    assert [found.kind for found in damaged([long, nul])] == ["unreadable", "unreadable"]


def test_links_are_followed(file: Path, expected: Expected, tmp_path: Path) -> None:
    moved = file.rename(tmp_path / "elsewhere")
    file.symlink_to(moved)
    assert damaged([expected]) == []
    os.truncate(moved, 10)
    assert only(damaged([expected])).kind == "truncated"
    moved.unlink()
    assert only(damaged([expected])).kind == "missing"
    file.unlink()
    file.symlink_to(file)
    assert only(damaged([expected])).kind == "unreadable"


def test_damage_is_listed_in_the_order_of_the_files(tmp_path: Path) -> None:
    files = []
    for number in range(50):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(os.urandom((50 - number) * 1000))
        files.append(described(path, 1))
        if number % 3 == 0:
            path.unlink()
    told: list[tuple[int, int]] = []
    found = damaged(files, lambda done, total: told.append((done, total)))
    assert [d.shown for d in found] == [f"shown/{n}.parquet" for n in range(0, 50, 3)]
    assert told == [(n, 50) for n in range(1, 51)]


def test_an_interrupt_does_not_wait_for_files_not_begun(
    expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, canceled = [], threading.Event()
    digest, shutdown = hashlib.file_digest, ThreadPoolExecutor.shutdown

    def reading(*given: Any) -> Any:
        begun.append(1)
        if len(begun) > 1:
            canceled.wait()
        return digest(*given)

    def stopping(
        pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False
    ) -> None:
        if wait:
            canceled.set()
        shutdown(pool, wait=wait, cancel_futures=cancel_futures)
        canceled.set()

    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hashlib, "file_digest", reading)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", stopping)
    with pytest.raises(KeyboardInterrupt):
        damaged([expected] * 100, interrupted)
    assert len(begun) <= 1 + intact.WORKERS
