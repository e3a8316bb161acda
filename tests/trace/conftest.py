"""Projects in this process, as the engine's tests have them, and the general ledger on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import new_database, spark, workshop
from tests.trace import general_ledger
from tests.trace.recorded import Recorded
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes
from tests.world.scale import FULL

__all__ = ["new_database", "spark", "workshop"]


@dataclass(frozen=True)
class Closed:
    """A run of the general-ledger close: what the command said, and what it left."""

    home: Home
    said: dict[str, Any]

    @property
    def folder(self) -> Path:
        return self.home.path / self.said["folder"] / "gl_close"

    @property
    def recorded(self) -> Recorded:
        return Recorded(self.folder / "trace")


@pytest.fixture(scope="session")
def ledger_home(session_homes: Homes) -> Callable[..., Home]:
    def make(form: str, *, interpreted: bool = not FULL) -> Home:
        home = session_homes.make(Home, "ledger", INTERPRETED if interpreted else "")
        general_ledger.write(home.path, form)
        return home

    return make


@pytest.fixture(scope="session")
def closed(ledger_home: Callable[..., Home]) -> Closed:
    home = ledger_home("python", interpreted=not FULL)
    return Closed(home, home.ok("run"))
