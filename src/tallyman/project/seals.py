"""Checks of runs against their seals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tallyman.control.bind.inputs import Pins
from tallyman.control.conclude import upkeep
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.seal.chain import Chain, check_chain
from tallyman.control.seal.check import look, witness
from tallyman.control.verify.reopen import Again
from tallyman.control.verify.verify import Case, Verification, verify
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run
from tallyman.project.runs import ProjectRuns


@dataclass(frozen=True, slots=True)
class ProjectSeals:
    """Checks runs and the chain of their seals."""

    workspace: Workspace

    def verify(self, run: str, *, exact: bool = False) -> Verification:
        """Verify a run from its files: it must be balanced, and every byte must be as sealed."""
        place, record = self._runs.place(run)
        known = self.workspace.database.durably(
            lambda tx: witness(tx, self.workspace.settings, record)
        )
        case = Case(
            folder=place,
            name=record.name if record else place.name,
            sealed=look(place, known),
            reused=self._runs.reused(record),
            exact=exact,
        )
        return verify(case, self._again, self.workspace.spark)

    def _again(self, run: Run) -> Callable[[Target, Path], Again]:
        """Return a function that reopens targets of a past run."""
        pins = Pins(self.workspace)
        found = run.manifest
        return lambda target, place: Again(target, place, found.id, found.started_at, pins)

    def chain(self, head: str | None = None) -> Chain:
        """Check every seal of the project, from the first: each must name the one before it."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return check_chain(self.workspace.database, self.workspace.settings, head)

    @property
    def _runs(self) -> ProjectRuns:
        return ProjectRuns(self.workspace)
