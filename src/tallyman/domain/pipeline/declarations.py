"""Declarations: what the code of a pipeline declares, in order, and where it is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallyman.domain.pipeline.pipeline import Item

    Listed = list[Item]
else:
    Listed = list

HERE = os.path.dirname(__file__)


class Declarations(Listed):
    """Sources, tables, shared datasets and assets, and the file and line of each."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, tuple[str, int]] = {}
        """File and line of each declaration, by kind and name as in `asset x`."""

    def place(self, where: str, file: str, line: int) -> None:
        self.places.setdefault(where, (file, line))


_declared: ContextVar[Declarations | None] = ContextVar("declared", default=None)


@contextmanager
def declaring() -> Iterator[Declarations]:
    """Collect the declarations made inside the block, in order."""
    collected = Declarations()
    token = _declared.set(collected)
    try:
        yield collected
    finally:
        _declared.reset(token)


def record(item: Item, where: str, written_at: tuple[str, int] | None = None) -> None:
    """Add an item if declarations are collected; without a place, at that of the calling code."""
    if (declared := _declared.get()) is not None:
        declared.append(item)
        declared.place(where, *(written_at or _caller()))


def _caller() -> tuple[str, int]:
    """Return file and line of the first frame outside of this room."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(HERE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
