"""The target tasks of a server: assigned and finished for workers, and their runs closed."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from tallyman.control.dispatch.report import Reported
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.package import MadeTarget, TargetPackage
from tallyman.control.tasks.assign_task import TaskAssigner
from tallyman.control.tasks.close import close
from tallyman.control.tasks.finish_task import TaskFinisher
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus
from tallyman.domain.version.owner import Owner
from tallyman.errors import DatabaseUnavailable, StaleAttempt, TallymanError, TriggerGone
from tallyman.registry.task.run_tasks import RunTasks

log = logging.getLogger("tallyman.dispatch")

BATCH = 100
AGAIN_S = 60.0
"""How long a run that could not be closed is left out."""
PATIENCE_S = 5.0
"""How long a report waits for a database that does not answer."""


class TargetTasks:
    def __init__(self, workspace: Workspace) -> None:
        self.projects = TaskProjects(workspace)
        self._failing: dict[UUID, float] = {}
        """Runs that could not be closed, and when that is tried again."""

    def assign(self, owner: Owner, fence: Fence) -> TargetPackage | None:
        """Assign a running attempt. None if its target cannot be made: then the attempt has ended
        with the reason."""
        try:
            return TaskAssigner(self.projects, owner, fence).package()
        except (StaleAttempt, DatabaseUnavailable):
            raise
        except TallymanError as error:
            gone = isinstance(error, TriggerGone)
            ended = AttemptReport(
                fence=fence,
                status=ReportStatus.CANCELED if gone else ReportStatus.FAILED,
                retryable=error.retryable,
                error=error.facts(),
            )
            self.finish(owner, ended, None)
            return None

    def finish(self, owner: Owner, report: AttemptReport, made: MadeTarget | None) -> Reported:
        """End an attempt in one transaction: with its outcome, and all that becomes of it."""
        return TaskFinisher(self.projects, owner, report, made, PATIENCE_S).finish()

    def close_runs(self) -> int:
        """Go on with runs that no task can move any more, and close those that are over; return
        their number. A step of a server's loops."""
        now = time.monotonic()
        self._failing = {run: again for run, again in self._failing.items() if again > now}
        with self.projects.database.transaction() as tx:
            found = RunTasks(tx).stuck(BATCH, self._failing)
        return sum(self._closed(run) for run in found)

    def _closed(self, run: UUID) -> bool:
        try:
            return close(self.projects, run)
        except DatabaseUnavailable:
            raise
        except Exception:  # one run that cannot be closed must not keep the others open
            log.exception("run %s could not be closed; again in %g s", run, AGAIN_S)
            self._failing[run] = time.monotonic() + AGAIN_S
            return False
