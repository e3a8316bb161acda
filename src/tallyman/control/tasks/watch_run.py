"""Watch a run that goes on without this process: show each target once it has ended, until the run
has."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.control.conclude import close, finish
from tallyman.control.run.progress import Listener
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.task.task import TARGET
from tallyman.engine.files.run_folder import REPORT
from tallyman.errors import Conflict, RecordedError, TallymanError, VersionConflict
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.run_tasks import RunTasks

PAUSE_S = 0.2
TARGETS_PER_S = 5_000
"""How many states of targets are looked up in a second: with many targets, less often."""


@dataclass(frozen=True, slots=True)
class RunWatch:
    """`each_time` is called between two looks."""

    database: Database
    home: Path
    run: RunRecord
    listen: Listener
    each_time: Callable[[], None] = lambda: None

    def result(self, known: Iterable[Target] = ()) -> RunResult:
        """Wait for the end of the run, and return or raise what the run itself would have. Targets
        that are `known` are not shown."""
        record = self._watched(set(known))
        found = close.result_of(self.database, record)
        if (trouble := self._trouble(record)) is not None:
            raise trouble
        return found.with_commit(found.commit)

    def _watched(self, shown: set[Target]) -> RunRecord:
        while True:
            # The run first: what it made was there before it ended.
            record = self.database.durably(lambda tx: Runs(tx).by_id(self.run.id))
            count = self._show(shown)
            if record.status is not Status.RUNNING:
                return record
            self.each_time()
            time.sleep(max(PAUSE_S, count / TARGETS_PER_S))

    def _show(self, shown: set[Target]) -> int:
        """Show the targets that have ended since the last look; return the number of targets."""
        states, left = self.database.durably(self._states)
        for target, status in states.items():
            if status is Status.RUNNING:
                self.listen(str(target), "making", None)
            elif status is not Status.PENDING and target not in left | shown:
                shown.add(target)
                self.listen(str(target), "done", finish.result_of(self._row(target)))
        return len(states)

    def _states(self, tx: Transaction) -> tuple[dict[Target, Status], set[Target]]:
        """Return how each target stands, and those that have a task left: one that failed may be
        tried again."""
        tasks = RunTasks(tx).of_run(self.run.id, TARGET)
        left = {Target(task.asset, task.partition) for task in tasks if task.open}
        return {one.target: one.status for one in Materializations(tx).states(self.run.id)}, left

    def _row(self, target: Target) -> Materialization:
        found = self.database.durably(lambda tx: Materializations(tx).find(self.run.id, target))
        assert found is not None
        return found

    def _trouble(self, record: RunRecord) -> TallymanError | None:
        """Read from the report why the run could not be published, if that is why it failed."""
        if record.status is not Status.FAILED:
            return None
        try:
            report = json.loads((self.home / record.folder / REPORT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return _recorded(report.get("error"))


def _recorded(facts: dict[str, Any] | None) -> TallymanError | None:
    if not facts:
        return None
    if "manifest_conflict" in facts:
        return VersionConflict(**facts["manifest_conflict"])
    conflicts = {kind.code for kind in (Conflict, *Conflict.__subclasses__())}
    kind = Conflict if facts.get("code") in conflicts else TallymanError
    return RecordedError(facts, kind.exit_code)
