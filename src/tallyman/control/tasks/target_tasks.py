"""The target tasks of a server: assigned and finished for workers, and their runs closed."""

from __future__ import annotations

from tallyman.control.dispatch.report import Reported
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.package import MadeTarget, TargetPackage
from tallyman.control.tasks.advance import advance, locked
from tallyman.control.tasks.assign_task import TaskAssigner
from tallyman.control.tasks.close import close
from tallyman.control.tasks.finish_task import TaskFinisher
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus
from tallyman.domain.version.owner import Owner
from tallyman.errors import DatabaseUnavailable, StaleAttempt, TallymanError
from tallyman.registry.task.run_tasks import RunTasks

BATCH = 100
PATIENCE_S = 5.0
"""How long a report waits for a database that does not answer."""


class TargetTasks:
    def __init__(self, workspace: Workspace) -> None:
        self.projects = TaskProjects(workspace)

    def assign(self, owner: Owner, fence: Fence) -> TargetPackage | None:
        """Assign a running attempt. None if its target cannot be made: then the attempt has failed
        with the reason."""
        try:
            return TaskAssigner(self.projects, owner, fence).package()
        except (StaleAttempt, DatabaseUnavailable):
            raise
        except TallymanError as error:
            failed = AttemptReport(
                fence=fence,
                status=ReportStatus.FAILED,
                retryable=error.retryable,
                error=error.facts(),
            )
            self.finish(owner, failed, None)
            return None

    def finish(self, owner: Owner, report: AttemptReport, made: MadeTarget | None) -> Reported:
        """End an attempt in one transaction: with its outcome, and all that becomes of it."""
        return TaskFinisher(self.projects, owner, report, made, PATIENCE_S).finish()

    def close_runs(self) -> int:
        """Go on with runs that no task can move any more, and close those that are over; return
        their number. A step of a server's loops."""
        database = self.projects.database
        with database.transaction() as tx:
            found = RunTasks(tx).stuck(BATCH)
        closed = 0
        for one in found:
            with database.transaction() as tx:
                run = locked(tx, one)
                done = advance(tx, self.projects, run)
            if done.over:
                closed += close(self.projects.of(run.owner), run, done.trouble)
        return closed
