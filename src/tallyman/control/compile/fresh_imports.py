"""Import the helper modules of a pipeline as they are on disk now.

A process that stays alive keeps modules that it has imported, and Python reuses compiled files by
time in seconds and size: either way a plan could be compiled from another text than the one that is
hashed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from tallyman.engine.code.helper_modules import helper_modules


class AsWritten(SourceFileLoader):
    """A loader that compiles the file each time."""

    def path_stats(self, path: str) -> NoReturn:
        raise OSError(path)


def import_as_written(folder: Path) -> None:
    """Forget the helper modules of the folder that this process has imported, and let the next
    import read their text. Only for a process that ends after compiling."""
    helpers = helper_modules(folder)
    if not helpers:
        return
    # By their names. Looking at every module for its file would touch all of them, and each page
    # of memory that a fork touches is copied: that took half of the time to compile.
    for file, _ in helpers:
        sys.modules.pop(file.removesuffix(".py").replace("/", ".").removesuffix(".__init__"), None)
    importlib.invalidate_caches()
    sys.meta_path.insert(0, _HelperFinder({str(path) for _, path in helpers}))


class _HelperFinder(MetaPathFinder):
    def __init__(self, paths: Collection[str]) -> None:
        self._paths = paths

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a helper module where Python would; None for all others."""
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None or found.origin not in self._paths:
            return None
        found.loader = AsWritten(fullname, found.origin)
        return found
