"""Totals per dataset of what many targets read and make; memory does not grow with the targets."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tallyman.engine.warehouse.footers import ColumnExtent, Extent, FileExtent

Identity: TypeAlias = tuple[str, str]


@dataclass
class Total:
    """The sum over files, each counted once even if many targets read it."""

    bytes: int = 0
    rows: int | None = 0
    """None if a file does not say it."""
    columns: dict[str, ColumnExtent] = field(default_factory=dict)
    """Only the columns that every file has."""
    files: set[str] = field(default_factory=set)
    _last: Extent | None = None

    def add(self, extent: Extent) -> None:
        if extent is self._last:
            return  # every partition reads the same whole dataset
        self._last = extent
        for path, file in extent.files.items():
            if path not in self.files:
                self._count(path, file)

    def _count(self, path: str, file: FileExtent) -> None:
        theirs = file.columns
        if self.files:
            known = self.columns.items()
            self.columns = {name: one + theirs[name] for name, one in known if name in theirs}
        else:
            self.columns = dict(theirs)
        self.files.add(path)
        self.bytes += file.bytes
        self.rows = None if self.rows is None or file.rows is None else self.rows + file.rows


def total(extents: Iterable[Extent | Total]) -> Total | None:
    """Add up extents; None if there are none. Totals cannot be added: their common files are
    unknown."""
    found: Total | None = None
    for extent in extents:
        assert isinstance(extent, Extent)
        found = found or Total()
        found.add(extent)
    return found


@dataclass
class Totals:
    """Totals by dataset, safe for targets that end at the same time."""

    _known: dict[Identity, Total] = field(default_factory=dict)
    _unknown: set[Identity] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, dataset: Identity, extent: Extent) -> None:
        with self._lock:
            self._known.setdefault(dataset, Total()).add(extent)

    def take_back(self, dataset: Identity) -> None:
        """Forget a dataset's total, because an added extent does not count after all and a sum
        cannot be reduced."""
        with self._lock:
            self._unknown.add(dataset)

    def of(self, dataset: Identity) -> Total | None:
        return None if dataset in self._unknown else self._known.get(dataset)
