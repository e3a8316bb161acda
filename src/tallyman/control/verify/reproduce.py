"""Reproduce a run in a temporary folder, and compare. Nothing is published; the registry is only
read.

The run's own identity is used, so that ids derived from it are the same.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from tallyman.control.conclude import process
from tallyman.control.target.make import Maker, Making, work_on
from tallyman.control.target.target_inputs import Corrections, TargetInputs
from tallyman.control.verify.can_reproduce import Reproducible
from tallyman.control.verify.compare import Differ, compare
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.reproduction import Reproduced, TargetAgain, Verdict
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import ANYTHING, Thresholds
from tallyman.engine.asset.work import Folders
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.replay_folder import FACTS, FOLDER
from tallyman.engine.observer import Observer
from tallyman.errors import RunCanceled, StorageFailed, TallymanError
from tallyman.state_folder import ready

PREFIX = "reproduce-"
OWNER = "made-by"
"""The file that names a folder's owner. The next reproduction removes folders of dead processes."""
PATIENCE = 20
"""Seconds to wait for Spark to stop after an interruption, before its files are removed."""

AgainListener = Callable[[str, str, TargetAgain | None], None]
"""Called with a target, its current phase, and the outcome once it is known."""


@dataclass
class Reproduction:
    checked: Reproducible
    differ: Differ
    listen: AgainListener = lambda *_: None
    jobs: int = 1
    keep: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)
    _listening: threading.Lock = field(default_factory=threading.Lock)
    _tag: str = field(default_factory=lambda: f"reproduce-{uuid4()}")

    def reproduce(self) -> Reproduced:
        """Check for reasons against it first, without Spark; then make and compare all targets."""
        reasons = tuple(self.checked.reasons())
        rows = self.checked.rows
        known = {row.target: self.checked.not_to_make(row) for row in rows}
        found = {target: again for target, again in known.items() if again is not None}
        todo = [row for row in rows if row.target not in found]
        against = any(a.verdict is Verdict.NOT_REPRODUCIBLE for a in found.values())
        kept: str | None = None
        if reasons or against or not todo:
            reasons += () if reasons or against else ("the run made nothing itself",)
            rest = {row.target: _untried(row.target) for row in todo}
            return self._concluded(reasons, found | rest, None)
        for target, again in found.items():
            self.say(target, "done", again)
        with self._aside() as aside:
            found |= self._made(todo, aside)
            kept = str(aside.relative_to(self._home)) if self.keep else None
        return self._concluded(reasons, found, kept)

    def _concluded(
        self, reasons: Sequence[str], found: Mapping[Target, TargetAgain], kept: str | None
    ) -> Reproduced:
        bound = self.checked.bound
        return Reproduced(
            run_id=bound.record.name,
            targets=tuple(found[row.target] for row in self.checked.rows),
            reasons=tuple(reasons),
            environment=self.checked.environment(),
            commit=self.checked.commit,
            kept=kept,
            sealed=bound.sealed is not None,
        )

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    @property
    def _home(self) -> Path:
        return self.checked.definitions.settings.home

    # ---- the temporary folder ---------------------------------------------------------------

    @contextmanager
    def _aside(self) -> Iterator[Path]:
        """Yield a folder that Spark can read and that is not among results. It is removed at the
        end, unless it is kept."""
        state = ready(self.checked.definitions.settings.state_folder)
        _sweep(state)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=state))
        (folder / OWNER).write_text(process.node(), encoding="utf-8")
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if self.keep:
            (folder / OWNER).unlink()
        else:
            shutil.rmtree(folder, ignore_errors=True)

    # ---- making ----------------------------------------------------------------------------

    def _made(self, rows: Sequence[Materialization], aside: Path) -> dict[Target, TargetAgain]:
        """Make targets in other threads, so that an interruption is noticed while Spark is busy."""
        pool = ThreadPoolExecutor(max_workers=self.jobs, thread_name_prefix="tallyman-again")
        running: dict[Future[TargetAgain], Target] = {}
        try:
            for number, row in enumerate(rows):
                running[pool.submit(self._target, row, aside, number)] = row.target
            wait(running)
        except BaseException:
            self._stop.set()
            self.checked.definitions.interrupt(self._tag)()
            pool.shutdown(wait=False, cancel_futures=True)
            wait(running, timeout=PATIENCE)
            raise
        pool.shutdown()
        return {target: future.result() for future, target in running.items()}

    def _target(self, row: Materialization, aside: Path, number: int) -> TargetAgain:
        target, before = row.target, self.checked.place(row.target)
        self.say(target, "opening", None)
        now, work = aside / before.relative_to(self.checked.bound.run.folder), aside / f".{number}"
        try:
            now.mkdir(parents=True)
            work.mkdir()
            making = self._make(row, now, work)
            self.say(target, "comparing", None)
            asset = self.checked.definitions.pipeline.assets[target.asset]
            again = compare(row, making, (before, now), asset.unique_key or asset.key, self.differ)
        except OSError as error:
            again = _impossible(target, StorageFailed(str(target), str(error)))
        except TallymanError as error:
            again = _impossible(target, error)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if not self.keep:
                shutil.rmtree(now, ignore_errors=True)
        self.say(target, "done", again)
        return again

    def _make(self, row: Materialization, now: Path, work: Path) -> Making:
        definitions, run = self.checked.definitions, self.checked.bound.record
        evidence, thresholds = self.checked.pinned(row.target.asset)
        replay = self.checked.place(row.target) / FOLDER
        folders = Folders(now, work, self._home)
        made = replace(
            work_on(definitions, row.target, run.identity, folders),
            attempt=row.attempt,
            thresholds=_bearing(thresholds, replay),
            evidence=evidence,
            tag=self._tag,
            replay_of=ledger_in(self.checked.place(row.target)).replay_of,
        )
        accounted = set(accounted_inputs(made.plan))
        corrections = Corrections.kept_in(self.checked.place(row.target), accounted)
        inputs = TargetInputs(self.checked.pins.as_read(row), corrections)
        maker = Maker(definitions.spark(), definitions.checked())
        return maker.make(made, inputs, AgainProgress(row.target, self))

    def say(self, target: Target, phase: str, again: TargetAgain | None) -> None:
        with self._listening:
            self.listen(str(target), phase, again)


@dataclass(frozen=True, slots=True)
class AgainProgress(Observer):
    """The observer of a reproduced target: shows phases and stops on request; steps are not
    recorded."""

    target: Target
    reproduction: Reproduction

    def phase(self, name: str) -> None:
        if self.canceled:
            raise RunCanceled(self.reproduction.checked.bound.record.name)
        self.reproduction.say(self.target, name, None)

    @property
    def canceled(self) -> bool:
        return self.reproduction.stopped


def _bearing(thresholds: Thresholds, replay: Path) -> Thresholds:
    """Tolerate all rejections in a replay of a few records: all of them may be rejected again."""
    facts = replay / FACTS
    if not facts.exists() or json.loads(facts.read_text(encoding="utf-8"))["whole"]:
        return thresholds
    return ANYTHING


def _untried(target: Target) -> TargetAgain:
    why = ("it could be made again, but was not tried",)
    return TargetAgain(target=target, verdict=Verdict.NOT_MADE, reasons=why)


def _impossible(target: Target, error: TallymanError) -> TargetAgain:
    why = (f"it could not be made again: {error}",)
    return TargetAgain(target=target, verdict=Verdict.NOT_REPRODUCIBLE, reasons=why)


def _sweep(state: Path) -> None:
    """Remove the folders of reproductions whose process was killed."""
    for folder in state.glob(f"{PREFIX}*"):
        try:
            owner = (folder / OWNER).read_text(encoding="utf-8")
        except OSError:
            continue  # kept on purpose, or already removed by another process
        if process.has_ended(owner):
            shutil.rmtree(folder, ignore_errors=True)


def pinned_spark(
    then: Mapping[str, Any], now: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """Combine the run's Spark settings with those given now. Secrets were not stored, so they come
    from the current settings."""
    kept = {name: now.get(name, "") if "***" in value else value for name, value in then.items()}
    return {**kept, **given}
