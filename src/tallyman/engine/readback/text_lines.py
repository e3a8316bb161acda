"""Lines of text files as DuckDB reads them: each with its number, none skipped.

DuckDB counts lines as Spark does if they all end in the same way and are valid UTF-8. Other files
are copied first, with one kind of line end, and with bad bytes replaced.
"""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from uuid import uuid4

import duckdb

from tallyman.engine.files.compressed import compression, opened
from tallyman.engine.files.duck import connect, text

LONGEST = 1 << 28
NOWHERE = "\x1d\x1e\x1f\x07"
"""A column separator that occurs in no text: a line is one column."""
RETURN = "\x1c"
"""The mark of a return in a copy."""


def lines(path: str, shown: str) -> str:
    """Query `_tm_file`, `_tm_line` and `line` of a file."""
    options = (
        f"columns = {{'line': 'VARCHAR'}}, delim = {text(NOWHERE)}, quote = '', escape = '', "
        "header = false, auto_detect = false, strict_mode = false, comment = '', "
        f"max_line_size = {LONGEST}"
    )
    return (
        f"SELECT {text(shown)} AS _tm_file, row_number() OVER () AS _tm_line, line "
        f"FROM read_csv([{text(path)}], {options})"
    )


def readable(path: str, aside: Path, *, look_at_bytes: bool, keep_returns: bool = False) -> str:
    """Return the file itself, or a copy that DuckDB counts and reads as Spark does. In a copy that
    keeps them, the returns are RETURN, because DuckDB would end a line at each.
    """
    if os.path.getsize(path) == 0:
        return path
    known = compression(path) in (None, "gzip", "zstd")  # DuckDB has no bzip2
    if known and not _has_returns(path) and not (look_at_bytes and _has_bad_bytes(path)):
        return path
    copy = aside / f"{uuid4().hex}.txt"
    newline = "\n" if keep_returns else None
    with (
        io.TextIOWrapper(
            opened(path), encoding="utf-8", errors="replace", newline=newline
        ) as source,
        open(copy, "w", encoding="utf-8", newline="\n") as target,
    ):
        while some := source.read(1 << 22):
            target.write(some.replace("\r", RETURN) if keep_returns else some)
    return str(copy)


def _has_returns(path: str) -> bool:
    if compression(path):
        with opened(path) as text:
            return any(b"\r" in piece for piece in iter(lambda: text.read(1 << 22), b""))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
        return bytes_.find(b"\r") >= 0


def _has_bad_bytes(path: str) -> bool:
    with connect() as connection:
        try:
            connection.execute(f"SELECT count(line) FROM ({lines(path, '')})").fetchall()
        except duckdb.InvalidInputException:
            return True
    return False
