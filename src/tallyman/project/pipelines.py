"""The project's pipeline: check and compile its files; list, show and compare its versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallyman.control.pipeline import past_versions
from tallyman.control.pipeline.mistakes import DefinitionCheck, find_mistakes
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.on_demand import OnDemand
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines

if TYPE_CHECKING:
    from tallyman.control.pipeline import compare_versions
else:
    compare_versions = OnDemand("tallyman.control.pipeline.compare_versions")

NOW = "now"
"""The pipeline that the project's files declare, in place of a version."""


@dataclass(frozen=True, slots=True)
class ProjectPipelines:
    """Answers about the pipeline and its versions."""

    workspace: Workspace

    def __call__(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """List the versions, newest first, with the number of their runs and which is active."""

        def work(tx: Transaction) -> list[dict[str, Any]]:
            active = Pipelines(tx).active(self.workspace.owner)
            rows = Pipelines(tx).versions(self.workspace.owner, limit)
            return [row | {"active": bool(active) and row["hash"] == active[0]} for row in rows]

        return self.workspace.database.durably(work)

    def version(self, wanted: str) -> PipelineVersion:
        """Find a version by its hash, a prefix of it, or `active`."""
        owner = self.workspace.owner
        return self.workspace.database.durably(
            lambda tx: past_versions.get_version(tx, owner, wanted)
        )

    def plan_of(self, wanted: str) -> str:
        """Return the stored plan of a version, as `tallyman compile` printed it."""
        return self.version(wanted).plan

    def compare(self, before: str, after: str) -> compare_versions.PipelineDifference:
        """Compare two versions, or a version with the files (`now`)."""
        return compare_versions.compare_versions(self._at(before), self._at(after))

    def _at(self, wanted: str) -> Workspace:
        if wanted == NOW:
            return self.workspace
        return past_versions.at_version(self.workspace, wanted)

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

    def standing(self) -> past_versions.PipelineStanding:
        """Compare the active version with the files, and say what a run would do."""
        return past_versions.standing(self.workspace)
