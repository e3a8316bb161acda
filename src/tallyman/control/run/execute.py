"""Execute a run: make every target in order, or reuse it if unchanged; prove it before it
counts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from tallyman import faults
from tallyman.control.bind.describe import description
from tallyman.control.conclude import finish, upkeep
from tallyman.control.conclude.approve import conclude
from tallyman.control.conclude.exports import export, made_in, records_of
from tallyman.control.run.schedule import in_order
from tallyman.control.run.target import TargetMaker
from tallyman.control.run.workbench import Workbench
from tallyman.control.seal.seal import place, seal_of
from tallyman.control.target.timings import Stopwatch
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.pipeline.target import Target, dependencies
from tallyman.engine.files.run_folder import MANIFEST, RunFolder
from tallyman.errors import Conflict, ExportFailed, RunTaken, StorageFailed, TallymanError
from tallyman.faults import Point


@dataclass(frozen=True, slots=True)
class Execution:
    """A registered run that this process holds. `execute` does all of it."""

    bench: Workbench
    maker: TargetMaker

    def execute(self) -> RunResult:
        faults.reach(Point.RUN_REGISTERED)
        bench = self.bench
        RunFolder.open(bench.folder.path)
        finish.set_aside(bench.folder)  # a resumed run left these when it ended
        finish.set_aside(bench.folder, finish.ENDS)
        self._describe()
        faults.reach(Point.FOLDER_MADE)
        notes: list[str] = []
        try:
            events = bench.lineage.begun(bench.targets)
            bench.journal.emit(events)
            bench.lineage.recorded(events)
            with bench.watch:
                self._make_targets()
                result = self._close()
        finally:
            notes = bench.lineage.close()
        return result.with_notes(notes)

    def abandon(self) -> None:
        """Stop on Ctrl-C, and record the run as canceled."""
        run, definitions = self.bench.journal.run, self.bench.definitions
        with contextlib.suppress(Exception):  # Spark may have been stopped by the same signal
            definitions.interrupt(str(run.id))()
        with contextlib.suppress(TallymanError):
            self.bench.journal.abandon(self.bench.settings.home)

    def _describe(self) -> None:
        """Write what the run is bound to, once: a resume finds it there."""
        bench, folder = self.bench, self.bench.folder
        if (folder.path / MANIFEST).exists():
            return
        run, definitions = bench.journal.run, bench.definitions
        description(definitions, run, bench.targets, bench.pins).write(folder)

    def _make_targets(self) -> None:
        bench = self.bench
        rows = bench.journal.rows()
        needs = dependencies(bench.definitions.pipeline, bench.targets)
        done = {target for target, row in rows.items() if row.status.good}
        left = {t: before - done for t, before in needs.items() if t not in done}
        # A target that waits for approval is made; its dependents wait too.
        waiting = {t for t, row in rows.items() if row.status is Status.WAITING}
        todo = {t: before for t, before in left.items() if t not in waiting}
        attempts = {target: row.attempt for target, row in rows.items()}
        in_order(
            todo,
            lambda target: self.maker.run(target, attempts[target] + 1),
            bench.options.jobs,
            bench.watch.halt,
            go_on=bench.options.go_on,
        )

    # ---- end of the run --------------------------------------------------------------------

    def _close(self) -> RunResult:
        bench, journal, settings = self.bench, self.bench.journal, self.bench.settings
        rows = self._in_order(journal.rows())
        canceled = bench.watch.stop.is_set()
        result = finish.conclude(bench.identity, rows, journal.run.folder, canceled=canceled)
        if result.status is Status.CANCELED:
            journal.discard(settings.home)
            rows = self._in_order(journal.rows())
            result = finish.conclude(bench.identity, rows, journal.run.folder, canceled=True)
        watch = Stopwatch("publishing")
        result, trouble = self._published(result)
        if trouble is not None:
            result = result.with_error(trouble.facts())
        finish.write(bench.folder, bench.identity, result, rows, watch.stop())
        events = bench.lineage.closed(result, bench.targets)
        sealed = seal_of(settings.home, journal.run, result, rows)
        journal.finish(result.status, sealed, events)
        faults.reach(Point.SEALED)
        place(journal.database, settings.home, settings.owner)
        if trouble is not None:
            raise trouble
        return self._decided(result) if result.status is Status.WAITING else result

    def _published(self, result: RunResult) -> tuple[RunResult, TallymanError | None]:
        """Publish the whole run at once. Return a conflict or storage error instead of raising
        it."""
        try:
            if result.status is not Status.CANCELED:
                commit, restored = self.bench.journal.publish(self.bench.warehouse)
                notes = [f"restored for outside readers: {entry}" for entry in restored]
                result = result.with_commit(commit).with_notes(notes)
                faults.reach(Point.COMMITTED)
                if result.commit is not None:
                    self._export()
        except RunTaken:
            raise
        except (Conflict, ExportFailed) as found:
            return result, found
        except OSError as error:
            name = self.bench.journal.run.name
            return result, StorageFailed(f"publishing {name}", str(error))
        return result, None

    def _decided(self, result: RunResult) -> RunResult:
        """Apply decisions that were made while the run was still running."""
        journal, warehouse = self.bench.journal, self.bench.warehouse
        database, run, actor = journal.database, journal.run, journal.actor
        concluded = database.durably(lambda tx: conclude(tx, warehouse, run.id, actor))
        if concluded.status is result.status:
            return result
        upkeep.rewrite_report(database, self.bench.settings.home, concluded, journal.sign)
        if concluded.status is Status.SUCCESS:
            self._export()
        return upkeep.result_of(database, concluded)

    def _export(self) -> None:
        settings, journal = self.bench.settings, self.bench.journal
        made = made_in(journal.database, settings.home, journal.run)
        export(records_of(settings), journal.run.name, made)

    def _in_order(self, rows: Mapping[Target, Materialization]) -> list[Materialization]:
        return [rows[target] for target in self.bench.targets]
