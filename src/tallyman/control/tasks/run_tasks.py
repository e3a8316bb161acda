"""Submit and resume runs whose targets are made by tasks, and cancel them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from tallyman.control.bind.describe import description
from tallyman.control.bind.inputs import Pins
from tallyman.control.conclude import finish
from tallyman.control.dispatch import follow
from tallyman.control.openlineage.run import RunEvents
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.run import begin
from tallyman.control.run.journal import Journal
from tallyman.control.run.watch import Watch
from tallyman.control.tasks.advance import advance
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.history.materialization import RunMadeBy, RunRecord
from tallyman.domain.task.task import TARGET
from tallyman.engine.files.hashing import hasher_for
from tallyman.engine.files.run_folder import MANIFEST, RunFolder
from tallyman.errors import TallymanError, WatchStopped
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.operations import Operations
from tallyman.registry.task.run_tasks import RunTasks


def submit(asked: begin.Begun, definitions: Definitions) -> RunRecord:
    """Register a run, describe it in its folder, and make the tasks of the targets whose inputs are
    there; the others follow as those complete. The run goes on without this process."""
    _check_pools(definitions, {target.asset for target in asked.targets})
    journal = begin.register(asked, definitions)
    return _handed_over(journal, definitions, round=0)


def resume(run: RunRecord, actor: str, definitions: Definitions) -> RunRecord:
    """Go on with a run that has ended: successful results stay, tasks make the rest with the
    current pipeline."""
    _check_pools(definitions, run.params.assets)
    journal = begin.claim(run, actor, definitions, run.params.options)
    known = definitions.database.durably(lambda tx: RunTasks(tx).of_run(run.id, TARGET))
    return _handed_over(journal, definitions, round=1 + max((t.round for t in known), default=0))


def _check_pools(definitions: Definitions, names: Iterable[str]) -> None:
    assets = [definitions.pipeline.assets[name] for name in names]
    owner = definitions.settings.owner
    definitions.database.durably(lambda tx: follow.ensure_pools(tx, owner, assets))


def cancel(database: Database, run: RunRecord) -> None:
    """Ask for the end of a run of tasks: tasks that nobody works on are canceled at once, workers
    are asked to stop. A server closes the run when the last one has. May be repeated."""

    def work(tx: Transaction) -> None:
        # Tasks first, as when one completes: the two do not wait for each other.
        for task in RunTasks(tx).of_run(run.id, TARGET):
            if task.open:
                Operations(tx).cancel(task.id)
        Runs(tx).request_cancel(run.id)

    database.durably(work)
    database.durably(work)  # for tasks that a completion added just before the request


def _handed_over(journal: Journal, definitions: Definitions, *, round: int) -> RunRecord:
    """Hand the run over to tasks. On Ctrl-C before that, record it as canceled; after that, raise
    WatchStopped: it goes on."""
    try:
        return _submitted(journal, definitions, round=round)
    except KeyboardInterrupt:
        run = journal.run
        now = definitions.database.durably(lambda tx: Runs(tx).by_id(run.id))
        if now.made_by is RunMadeBy.TASKS:
            raise WatchStopped(run.name) from None
        with contextlib.suppress(TallymanError):
            journal.abandon(definitions.settings.home)
        raise


def _submitted(journal: Journal, definitions: Definitions, *, round: int) -> RunRecord:
    run, settings, database = journal.run, definitions.settings, definitions.database
    targets = begin.targets_in(database, run)
    folder = RunFolder.open(settings.home / run.folder)
    finish.set_aside(folder)  # a resumed run left these when it ended
    finish.set_aside(folder, finish.ENDS)
    if not (folder.path / MANIFEST).exists():
        hasher = hasher_for(settings.master, definitions.spark)
        pins = Pins(definitions.workspace, run.id, run.pins, hasher)
        # Hashing large inputs may take longer than the lease of this process.
        with Watch(journal, definitions.interrupt(str(run.id))):
            description(definitions, run, targets, pins).write(folder)
    lineage = RunEvents(definitions, run, folder)
    events = lineage.first(targets)
    journal.emit(events)
    lineage.recorded(events)
    projects = TaskProjects(definitions.workspace)

    def work(tx: Transaction) -> RunRecord:
        Runs(tx).lock(run.id)
        Runs(tx).hand_over(run.id, run.executor)
        advance(tx, projects, Runs(tx).by_id(run.id), round=round)
        return Runs(tx).by_id(run.id)

    return database.durably(work)
