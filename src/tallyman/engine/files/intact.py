"""Integrity of a version's files: size first, then every byte.

`damaged` reads every byte each time, for `verify`. `check` is for readers: a process reads a file
once, and a damaged file is an error before any of its values is used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tallyman.engine.files.listing import fresh_sha256, read_before, sha256_once
from tallyman.errors import DatasetDamaged
from tallyman.errors.wording import first_line
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:
    pq = OnDemand("pyarrow.parquet")

WORKERS = 4
BATCH = 8_192
"""The number of rows in memory at a time while a changed file is examined."""

Kind = Literal["missing", "truncated", "grown", "changed", "unreadable"]
Progress = Callable[[int, int], None]
Hash = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Expected:
    """A file as recorded in the registry. `rows` is None for a metadata file."""

    path: str
    shown: str
    sha256: str
    bytes: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    shown: str
    kind: Kind
    detail: str


def _quiet(done: int, total: int) -> None:
    pass


def check(dataset: str, files: Sequence[Expected]) -> None:
    """Raise DatasetDamaged for the first file that differs from its record."""
    at_once = len(files) > 1 and not all(read_before(file.path) for file in files)
    found = _found(files, sha256_once) if at_once else [_damage(f, sha256_once) for f in files]
    for damage in filter(None, found):
        raise DatasetDamaged(dataset, f"{damage.shown} is {damage.kind}: {damage.detail}")


def damaged(files: Sequence[Expected], progress: Progress = _quiet) -> list[Damage]:
    """List the damage, in the order of `files`; problems with a file are reported, not raised.

    Links are followed. `progress` gets the number of checked files and of all files, in the calling
    thread.
    """
    return [damage for damage in _found(files, fresh_sha256, progress) if damage]


def _found(
    files: Sequence[Expected], hashed: Hash, progress: Progress = _quiet
) -> list[Damage | None]:
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="verify") as pool:
        checks = [pool.submit(_damage, file, hashed) for file in files]
        try:
            for done, _ in enumerate(as_completed(checks), start=1):
                progress(done, len(checks))
        except BaseException:  # Ctrl-C does not wait for files that are not started
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [check.result() for check in checks]


def _damage(file: Expected, hashed: Hash) -> Damage | None:
    try:
        kind, detail = _compared(file, hashed)
    except (FileNotFoundError, NotADirectoryError):
        kind, detail = "missing", f"no such file{_held(file)}"
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL in it
        kind, detail = "unreadable", getattr(problem, "strerror", None) or str(problem)
    return Damage(file.shown, kind, detail) if kind else None


def _held(file: Expected) -> str:
    return "" if file.rows is None else f"; it held {file.rows:,} rows"


def _compared(file: Expected, hashed: Hash) -> tuple[Kind | None, str]:
    found = os.stat(file.path)
    if stat.S_ISDIR(found.st_mode):
        return "unreadable", "a directory is in its place"
    if not stat.S_ISREG(found.st_mode):  # opening a pipe would wait forever
        return "unreadable", "it is not a regular file"
    sizes = f"{found.st_size:,} bytes, expected {file.bytes:,}"
    if found.st_size < file.bytes:
        return "truncated", f"{sizes}{_held(file)}"
    if found.st_size > file.bytes:
        return "grown", sizes
    digest = hashed(file.path)
    if digest == file.sha256.lower():
        return None, ""
    hashes = f"sha256 {digest[:12]}…, expected {file.sha256[:12]}…"
    reason = _place_of_change(file) if file.path.endswith(".parquet") else ""
    return "changed", f"{hashes}; {reason}" if reason else hashes


def _place_of_change(file: Expected) -> str:
    """Find where a changed Parquet file is broken, as far as its checksums show.

    Catches everything: a broken file can fail in any way, and it is already known to be broken.
    """
    try:
        parquet = pq.ParquetFile(file.path, page_checksum_verification=True)
    except Exception:
        return "its footer is unreadable"
    with parquet:
        rows = parquet.metadata.num_rows
        if file.rows is not None and rows != file.rows:
            return f"it holds {rows:,} rows, expected {file.rows:,}"
        for group in range(parquet.num_row_groups):
            try:
                for _ in parquet.iter_batches(BATCH, row_groups=[group], use_threads=False):
                    pass
            except Exception as problem:
                return f"a page in row group {group} is corrupt ({first_line(problem, 160)})"
    return "all its pages can be read and their checksums are right"
