"""Execute a run: make every target in order, or reuse it if unchanged; prove it before it
counts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from tallyman import faults
from tallyman.control.bind.describe import description
from tallyman.control.conclude import finish
from tallyman.control.conclude.close import RunCloser
from tallyman.control.run.target import TargetMaker
from tallyman.control.run.workbench import Workbench
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.pipeline.target import Target, dependencies
from tallyman.domain.version.commit import Commit
from tallyman.engine.files.run_folder import MANIFEST, RunFolder
from tallyman.errors import TallymanError
from tallyman.faults import Point

PATIENCE = 10
"""Seconds to wait after Ctrl-C for work that is asked to end."""


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
        _in_order(
            todo,
            lambda target: self.maker.run(target, attempts[target] + 1),
            bench.options.jobs,
            bench.watch.halt,
            go_on=bench.options.go_on,
        )

    def _close(self) -> RunResult:
        bench, journal = self.bench, self.bench.journal
        notes: list[str] = []

        def publish() -> Commit | None:
            commit, restored = journal.publish(bench.warehouse)
            notes.extend(f"restored for outside readers: {entry}" for entry in restored)
            return commit

        database, settings = journal.database, bench.settings
        closer = RunCloser(database, settings, journal.run, journal.actor, journal.sign)
        canceled = bench.watch.stop.is_set()
        result, trouble = closer.close(publish, bench.lineage.closed, canceled=canceled)
        if trouble is None:
            result, trouble = closer.decided(result)
        if trouble is not None:
            raise trouble
        return result.with_notes(notes)


def _in_order(
    needs: Mapping[Target, set[Target]],
    work: Callable[[Target], bool],
    jobs: int,
    halt: Callable[[], None],
    *,
    go_on: bool,
) -> None:
    """Run `work` on each target after the targets it needs, so many `jobs` at once. Dependents of
    one for which it returns False are left out; if `go_on` is False, nothing new starts after
    that. On Ctrl-C, `halt` makes running work end."""
    order = TopologicalSorter(needs)
    order.prepare()
    place = {target: number for number, target in enumerate(needs)}
    ready: list[tuple[int, Target]] = []
    running: dict[Future[bool], Target] = {}
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="tallyman-target")
    try:
        while True:
            for target in order.get_ready():
                if target in place:  # the others wait for approval
                    heappush(ready, (place[target], target))
            while ready and len(running) < jobs:
                _, target = heappop(ready)
                running[pool.submit(work, target)] = target
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                target = running.pop(future)
                if future.result():
                    order.done(target)
                elif not go_on:
                    place.clear()
                    ready.clear()
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        _wait_a_little(running, halt)
        raise
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _wait_a_little(running: Mapping[Future[bool], Target], halt: Callable[[], None]) -> None:
    """Wait a little for running work: Spark could write to a folder that was removed already."""
    for _ in range(PATIENCE):
        with contextlib.suppress(Exception):  # Spark may have been stopped by the same signal
            halt()  # again each time: a job that starts just after an interrupt must stop too
        if not wait(running, timeout=1).not_done:
            return
