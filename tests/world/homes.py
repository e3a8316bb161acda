"""Making project folders, each with a database of its own, and taking them away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import pytest

from tests.world.databases import Databases
from tests.world.home import Home

# Spark compiles each plan before it runs it and plans again while it runs; for a handful of rows
# that takes longer than the rows.
# Only for tests of what surrounds a run: what steps mean is tested with code as users run it.
INTERPRETED = """\
spark:
  spark.sql.codegen.wholeStage: "false"
  spark.sql.codegen.factoryMode: NO_CODEGEN
  spark.sql.adaptive.enabled: "false"
  spark.sql.shuffle.partitions: "1"
"""
AnyHome = TypeVar("AnyHome", bound=Home)


class Homes:
    """The homes of one test, module or session, and their databases: gone at its end."""

    def __init__(
        self, folders: pytest.TempPathFactory, databases: Databases, master: str | None = None
    ) -> None:
        self._folders, self._databases, self._master = folders, databases, master
        self._homes: list[Home] = []
        self._addresses: list[str] = []

    def make(
        self,
        kind: type[AnyHome],
        name: str,
        settings: str = INTERPRETED,
        environment: Mapping[str, str] | None = None,
    ) -> AnyHome:
        """A project without a pipeline, on the Spark Connect server if there is one."""
        path = self._folders.mktemp(name)
        master = f"master: {self._master}\n" if self._master else ""
        (path / "tallyman.yaml").write_text(f"name: {name}\n{master}{settings}")
        self.give_database(path)
        home = kind(path, environment or {})
        self._homes.append(home)
        return home

    def give_database(self, project: Path) -> str:
        """Add the address of a new database to the settings of a project."""
        self._addresses.append(self._databases.new())
        settings = project / "tallyman.yaml"
        # First, so that a test may add to the block at the end.
        settings.write_text(f"database: {self._addresses[-1]}\n{settings.read_text()}")
        return self._addresses[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for home in self._homes:
            home.close()
        for address in self._addresses:
            self._databases.drop(address)
