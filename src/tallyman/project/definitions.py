"""Definitions of a project: check and compile them without a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyman.control.pipeline.mistakes import DefinitionCheck, find_mistakes
from tallyman.control.pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ProjectDefinitions:
    """Answers whether the definitions are sound."""

    workspace: Workspace

    def check(
        self, selection: str | Sequence[str] = (), *, with_spark: bool = True
    ) -> DefinitionCheck:
        """Find all mistakes of the selected assets, or of all. Writes nothing and does not use the
        database; without Spark, columns and types are not checked."""
        terms = (selection,) if isinstance(selection, str) else tuple(selection)
        return find_mistakes(self.workspace, terms, with_spark=with_spark)

    def compiled(self) -> str:
        """Return the pipeline in its compiled form, as text."""
        return self.workspace.compiled().text()
