"""The data files below a folder or behind a pattern, by name.

Links to folders are followed. A file is found once, whatever number of names lead to it: under its
own name if that is below the folder, otherwise under the first name in sorted order. So a link back
to a folder that is read already adds nothing, and a loop ends.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

HIDDEN = (".", "_")
"""The first characters of names that are not data, such as `_SUCCESS`."""
ANY_DEPTH = "**"


class NoDataFile(Exception):
    """A name below the folder leads to nothing that can be read as data."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True, order=True)
class _Name:
    """A name of a file or folder; names without links come first."""

    linked: bool
    path: str
    real: str


def in_folder(folder: str) -> list[str]:
    """List the data files of a folder and of its subfolders."""
    return _once(_below(folder, HIDDEN))


def matching(pattern: str, root: str) -> list[str]:
    """List the files that match a pattern, and those below the folders that do."""
    if ANY_DEPTH in (parts := pattern.split("/")):
        files = [name for name in _below(root, (".",)) if _fits(name.path.split("/"), parts)]
    else:
        files = [_named(p, root) for p in glob.glob(pattern) if not os.path.isdir(p)]
    for folder in sorted(_named(p, root) for p in glob.glob(pattern) if os.path.isdir(p)):
        files += _below(folder.path, HIDDEN, linked=folder.linked)
    return _once(files)


def _once(names: Iterable[_Name]) -> list[str]:
    """Keep one name of each file, in the order of the names."""
    first: dict[str, str] = {}
    for name in sorted(names):
        if not os.path.isfile(name.real):
            reason = "not a regular file" if os.path.exists(name.real) else "the link leads nowhere"
            raise NoDataFile(name.path, reason)
        first.setdefault(name.real, name.path)
    return sorted(first.values())


def _named(path: str, root: str) -> _Name:
    real = os.path.realpath(path)
    return _Name(
        real != os.path.join(os.path.realpath(root), os.path.relpath(path, root)), path, real
    )


def _below(folder: str, hidden: tuple[str, ...], *, linked: bool = False) -> Iterator[_Name]:
    """Yield the files below a folder; each real folder is entered once, without links first."""
    top = os.path.realpath(folder)
    todo, later = [_Name(linked, folder, top)], list[_Name]()
    entered: set[str] = set()
    while todo or later:
        here = todo.pop() if todo else later.pop(0)
        # A link to a folder above would read everything around the input, and the input again.
        if here.real in entered or (here.real != top and f"{top}/".startswith(f"{here.real}/")):
            continue
        entered.add(here.real)
        for entry in _entries(here.path):
            if entry.name.startswith(hidden):
                continue
            link = entry.is_symlink()
            real = os.path.realpath(entry.path) if link else os.path.join(here.real, entry.name)
            name = _Name(here.linked or link, entry.path, real)
            if not entry.is_dir():
                yield name
            elif link:
                later.append(name)
            else:
                todo.append(name)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:  # a folder that is passed over would be records in no number
        raise NoDataFile(folder, error.strerror or str(error)) from None


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """True if a path fits a pattern in which `**` stands for folders of any depth."""
    if not pattern:
        return not names
    if pattern[0] == ANY_DEPTH:
        return any(_fits(names[n:], pattern[1:]) for n in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _fits(names[1:], pattern[1:])
