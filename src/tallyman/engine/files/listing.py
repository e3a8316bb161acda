"""The files of an input: listed once, pinned for the whole run, hashed, and checked again."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from tallyman.engine.files import data_files
from tallyman.errors import InputChanged, InputMissing, InputUnreadable


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of an input. `name` is relative to the input's root, the same on every machine."""

    name: str
    path: str
    size: int
    modified_ns: int


Hasher: TypeAlias = "Callable[[Sequence[InputFile]], list[str]]"
"""A function that returns the sha256 of each file, in the given order."""


@dataclass(frozen=True)
class InputFiles:
    input: str
    root: str
    files: tuple[InputFile, ...]
    folders_are_columns: bool = True
    """True if `a=1/` in a path is a column; in our own outputs the column is in the files."""
    hasher: Hasher = field(default=lambda files: hash_here(files), compare=False, repr=False)
    check_recorded: Callable[[], object] = field(default=lambda: None, compare=False, repr=False)
    """Raise unless our own files are as recorded; called before they are read. Nothing is recorded
    about files from outside: their hash says what was read.
    """

    @property
    def paths(self) -> list[str]:
        return [escaped(file.path) for file in self.files]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def check_unchanged(self) -> None:
        changed = [f.name for f in self.files if _stamp(f.path) != (f.size, f.modified_ns)]
        if changed:
            raise InputChanged(self.input, changed)

    @cached_property
    def content_hash(self) -> str:
        """Hash (name, size, sha256 of the bytes) of all files, sorted by name."""
        hashes = self.hasher(self.files)
        whole = hashlib.sha256()
        for file, digest in sorted(zip(self.files, hashes, strict=True), key=lambda x: x[0].name):
            whole.update(f"{file.name}\0{file.size}\0{digest}\n".encode())
        return f"sha256:{whole.hexdigest()}"


def escaped(path: str) -> str:
    """Escape a path: Spark reads a path as a glob, so characters of real names must be quoted."""
    return "".join("\\" + c if c in "[]{}*?\\" else c for c in path)


def hash_here(files: Sequence[InputFile]) -> list[str]:
    """Hash each file in this process; hashing releases the interpreter's lock."""
    return _side_by_side(fresh_sha256, [file.path for file in files])


def _side_by_side(hashed: Callable[[str], str], paths: Sequence[str]) -> list[str]:
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        return list(pool.map(hashed, paths))


def list_files(name: str, path: str, project: Path) -> InputFiles:
    """List every data file of a folder, a pattern or a single file, in a stable order."""
    full = os.path.normpath(os.path.join(project, path.removeprefix("file://")))
    if os.path.isfile(full):
        return InputFiles(name, os.path.dirname(full), (_file(full, os.path.dirname(full)),))
    is_pattern = glob.has_magic(full) and not os.path.exists(full)
    root = full
    if is_pattern:
        root = full.split("*")[0].split("?")[0].split("[")[0].rpartition("/")[0]
    try:
        found = data_files.matching(full, root) if is_pattern else data_files.in_folder(full)
    except data_files.NoDataFile as error:
        shown = os.path.relpath(error.path, root)
        raise InputUnreadable(name, shown, error.reason) from None
    if not found:
        raise InputMissing(name, path, "Check the path.")
    return InputFiles(name, root, tuple(_file(p, root) for p in found))


def listed_files(name: str, files: Mapping[str, str], root: Path) -> InputFiles:
    """List the files of a dataset's version, given as name and path."""
    missing = [path for path in files.values() if not os.path.isfile(path)]
    if missing:
        shown = f"{len(missing)} of {len(files)} files, first {os.path.relpath(missing[0], root)}"
        raise InputMissing(name, shown, f"Look with `tallyman verify dataset {name}`.")
    listed = [InputFile(shown, path, *_stamp(path)) for shown, path in sorted(files.items())]
    return InputFiles(name, str(root), tuple(listed), False)


def _file(path: str, root: str) -> InputFile:
    return InputFile(os.path.relpath(path, root), path, *_stamp(path))


def _stamp(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return (-1, -1)
    return (stat.st_size, stat.st_mtime_ns)


def sha256(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_hashed: dict[tuple[int, ...], str] = {}
"""Hashes computed by this process, by device, inode, size and times of change: a file with two
names is read once.
"""
MOST_HASHED = 200_000


def fresh_sha256(path: str) -> str:
    """Read every byte, and remember the hash for `sha256_once`."""
    before = _identity(path)
    digest = sha256(path)
    if before == _identity(path):
        remember(path, digest)
    return digest


def remember(path: str, digest: str) -> None:
    if len(_hashed) >= MOST_HASHED:
        _hashed.clear()
    _hashed[_identity(path)] = digest


def sha256_once(path: str) -> str:
    """Hash the file, unless this process has done so and the file is unchanged since."""
    return known_sha256(path) or fresh_sha256(path)


def known_sha256(path: str) -> str | None:
    """Return the hash if this process computed it and the file is unchanged since."""
    return _hashed.get(_identity(path))


def hash_once(paths: Sequence[str]) -> list[str]:
    """Apply `sha256_once` to each; files that are not known yet are read in parallel."""
    if len(paths) < 2 or all(map(read_before, paths)):
        return [sha256_once(path) for path in paths]
    return _side_by_side(sha256_once, paths)


def read_before(path: str) -> bool:
    """True if `sha256_once` does not have to read the file."""
    try:
        return _identity(path) in _hashed
    except (OSError, ValueError):  # ValueError: a path with a NUL in it
        return False


def _identity(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def hash_files(paths: Sequence[Path], root: Path) -> dict[str, str]:
    """Hash files, by name relative to `root`."""
    hashes = _side_by_side(fresh_sha256, list(map(str, paths)))
    return {str(p.relative_to(root)): h for p, h in zip(paths, hashes, strict=True)}
