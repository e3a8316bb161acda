"""Modules that are imported when they are first used.

Most commands need neither Spark nor Arrow, and importing them takes longer than answering. The
few doors to the expensive rooms are opened on demand; everything else is a plain import. A door is
written twice, so that type checkers and import-linter see the import:

    if TYPE_CHECKING:
        from tallyman.control.conclude import ended
    else:
        ended = OnDemand("tallyman.control.conclude.ended")
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any


class OnDemand:
    """A stand-in for a module until one of its names is used."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)

    def __repr__(self) -> str:
        return f"<{self._module}, imported on demand>"


@contextmanager
def imported_meanwhile(*modules: str, after: str) -> Iterator[None]:
    """Import modules in another thread while the caller waits for something else, such as Spark.
    `after` is imported here first: modules of PySpark import each other in circles, and two threads
    that enter the circle at once may see half of it."""
    import_module(after)

    def load() -> None:
        # The caller gets the error of a failed import when it uses the module.
        with suppress(Exception):
            for module in modules:
                import_module(module)

    thread = threading.Thread(target=load, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
