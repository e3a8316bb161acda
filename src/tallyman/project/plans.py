"""Plan a change of the pipeline, and apply it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish import apply, plan
from tallyman.control.run import begin
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import RunIdentity, RunResult
from tallyman.domain.version.change_plan import ChangePlan
from tallyman.domain.version.commit import Commit
from tallyman.project.making import begun, check_inputs, check_jobs
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines

if TYPE_CHECKING:
    from tallyman.control.run.progress import Listener


@dataclass(frozen=True, slots=True)
class ProjectPlans:
    """Makes change plans, and applies them."""

    workspace: Workspace

    def plan(self) -> ChangePlan:
        """Plan what applying the current pipeline would do, and store the plan so that it can be
        applied."""
        found = plan.plan(Definitions.of(self.workspace, self.workspace.pipeline.order()))
        self.workspace.database.durably(
            lambda tx: Pipelines(tx).keep(
                UUID(found.id), self.workspace.owner, self.workspace.actor, found.to_json()
            )
        )
        return found

    def apply(
        self,
        wanted: str = "latest",
        *,
        jobs: int = 1,
        accept_shrink: Sequence[str] = (),
        listen: Listener = lambda *_: None,
    ) -> tuple[ChangePlan, RunResult | None, Commit | None]:
        """Build what the plan says, then publish all of it in one commit."""
        check_jobs(jobs)
        settings = self.workspace.settings
        found = self.workspace.database.durably(lambda tx: apply.load(tx, wanted, settings.owner))
        options = Options(jobs=jobs, plan=found, accept_shrink=tuple(accept_shrink))
        targets = apply.targets(found)
        chosen = list(dict.fromkeys(target.asset for target in targets))
        check_inputs(self.workspace.pipeline, chosen, options.accept_shrink)
        definitions = Definitions.of(self.workspace, chosen)
        self.workspace.database.durably(lambda tx: apply.check(tx, found, definitions))
        if targets:
            identity = RunIdentity.of(None, now=datetime.now(UTC))
            asked = begin.Begun(settings.actor, identity, targets, options)
            result = begun(self.workspace, asked, definitions, listen)
            return found, result, result.commit
        version = definitions.pipeline_version()
        asking = apply.asking(found, settings.owner, settings.actor)

        def work(tx: Transaction) -> Commit | None:
            Pipelines(tx).add(settings.owner, version)
            return apply.publish_plan(tx, self.workspace.warehouse, asking, found)

        return found, None, self.workspace.database.durably(work)
