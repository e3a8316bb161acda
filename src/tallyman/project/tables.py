"""Write the rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish.mutate import Writing, WrittenChange
from tallyman.domain.version.mutation import Mutation
from tallyman.errors import UsageError


@dataclass(frozen=True, slots=True)
class ProjectTables:
    """Mutates tables, and loads files into them."""

    workspace: Workspace

    def mutate(
        self,
        statements: Mutation | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        expected_versions: Mapping[str, int] | None = None,
        message: str | None = None,
    ) -> WrittenChange:
        """Execute several statements on several tables: all in one commit, or none."""
        asked = statements if isinstance(statements, Mutation) else Mutation.of(statements)
        if expected_versions:
            both = {**asked.expected_versions, **expected_versions}
            asked = replace(asked, expected_versions=both)
        if message is not None:
            asked = replace(asked, message=message)
        return Writing(self.workspace).mutate(asked)

    def load(
        self,
        table: str,
        file: str | Path,
        *,
        mode: str = "append",
        expected_version: int | None = None,
        message: str | None = None,
    ) -> WrittenChange:
        """Load a file into a table: append new keys, merge by key, or overwrite all rows."""
        if mode not in ("append", "merge", "overwrite"):
            raise UsageError(f"mode is append, merge or overwrite, not {mode!r}")
        return Writing(self.workspace).load(table, Path(file), mode, expected_version, message)
