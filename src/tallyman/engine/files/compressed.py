"""Compressed text files: Spark decides by the name, so name and content must agree.

A file whose content is not what its name says would be read as nothing, or as lines of garbage.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from tallyman.engine.files.listing import InputFile, InputFiles
from tallyman.errors import InputUnreadable
from tallyman.errors.wording import first_line
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = OnDemand("pyarrow")

READ = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
"""The endings of names that Spark decompresses, without libraries of the machine."""
REFUSED = (
    ".7z",
    ".br",
    ".deflate",
    ".lz4",
    ".lzma",
    ".lzo",
    ".snappy",
    ".xz",
    ".z",
    ".zip",
    ".zstd",
)
"""The endings of compressed files that are not read."""
_BEGINNINGS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zip": re.compile(rb"PK\x03\x04"),
}
LONGEST = 10
"""The number of bytes by which a kind of compression is known."""
BROKEN = (OSError, EOFError, ValueError)
"""Errors of a decompressor on a broken file; Arrow's are OSErrors."""


def compression(path: str) -> str | None:
    """Name the compression that Spark assumes; None for plain text."""
    return READ.get(os.path.splitext(path)[1])


def any_compressed(files: InputFiles) -> bool:
    return any(compression(file.path) for file in files.files)


def check(files: InputFiles) -> None:
    """Raise InputUnreadable for the first file whose name and content do not agree."""
    for file in files.files:
        if file.size and (reason := _against(file)):
            raise InputUnreadable(files.input, file.name, reason)


def _against(file: InputFile) -> str | None:
    ending = os.path.splitext(file.path)[1]
    named, found = READ.get(ending), _content(file.path)
    if named == found and ending.lower() not in REFUSED:
        return None
    if named is not None:
        really = f"; it is {found}" if found else ""
        return f"its name ends in {ending}, but its content is not {named}{really}"
    if found in READ.values():
        wanted = next(e for e, kind in READ.items() if kind == found)
        return f"it is compressed with {found}, and its name does not end in {wanted}; rename it"
    kind = found or ending.removeprefix(".")
    return f"it is compressed with {kind}; compress it with gzip (.gz), bzip2 (.bz2) or zstd (.zst)"


def _content(path: str) -> str | None:
    """Name the compression by the first bytes."""
    with open(path, "rb", buffering=0) as file:
        begins = file.read(LONGEST)
    return next((kind for kind, pattern in _BEGINNINGS.items() if pattern.match(begins)), None)


def opened(path: str) -> IO[bytes]:
    """Open a file for reading its text, decompressed."""
    kind = compression(path)
    if kind == "gzip":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if kind == "bzip2":
        return bz2.open(path, "rb")
    if kind == "zstd":
        return io.BufferedReader(pa.input_stream(path, compression="zstd"))  # type: ignore[arg-type]
    return open(path, "rb")


@contextmanager
def text_of(files: InputFiles, file: InputFile) -> Iterator[io.TextIOWrapper]:
    """Open the text of a file of an input; InputUnreadable names it if it is broken."""
    try:
        with io.TextIOWrapper(opened(file.path), encoding="utf-8-sig", errors="replace") as text:
            yield text
    except BROKEN as error:
        raise InputUnreadable(files.input, file.name, first_line(error)) from None
