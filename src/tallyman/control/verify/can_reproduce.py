"""Check without Spark whether a run can be reproduced: are its definitions and inputs still
there?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tallyman.control.bind.changes import changes
from tallyman.control.bind.inputs import Pins
from tallyman.control.bind.manifest import label
from tallyman.control.bind.pinned_files import Pin
from tallyman.control.conclude.finish import result_of
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.verify.bound_change import input_change
from tallyman.control.verify.inputs import Bound, damage
from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.history.manifest import SOURCE, BoundInput
from tallyman.domain.history.materialization import Materialization, dependency_hash
from tallyman.domain.history.reproduction import TargetAgain, Verdict
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.replay_folder import FACTS, FOLDER
from tallyman.engine.spark.environment import environment
from tallyman.errors import (
    InputMissing,
    InputUnreadable,
    NotFound,
    RowsOutsidePartition,
    RowsUnaccountedFor,
)
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.reads import Reads
from tallyman.registry.run.runs import Runs

COUNTED = {RowsUnaccountedFor.code, RowsOutsidePartition.code}
"""Errors raised after all records were counted, so that the ledger is complete."""
UNFINISHED = (Status.RUNNING, Status.PENDING, Status.INTERRUPTED, Status.CANCELED)
VERSIONS = ("tallyman_version", "python_version", "spark_version", "java_version", "platform")


@dataclass
class Reproducible:
    """The targets of a run: which ones it made, and the reasons why a target cannot be made
    again."""

    bound: Bound
    definitions: Definitions
    """The definitions of everything to make again."""

    @cached_property
    def rows(self) -> list[Materialization]:
        run = self.bound.record.id
        return self.definitions.database.durably(lambda tx: Materializations(tx).of_run(run))

    @cached_property
    def pins(self) -> Pins:
        """Pin what the run saw, including what it made itself."""
        run = self.bound.record
        return Pins(self.definitions.workspace, run.id, run.pins)

    def place(self, target: Target) -> Path:
        """Return the target's folder in the run folder."""
        return self.bound.run.folder / self.bound.manifest.folders[target]

    # ---- the whole run ---------------------------------------------------------------------

    def reasons(self) -> Iterator[str]:
        if self.bound.seal_change is not None:
            yield self.bound.seal_change.message
            return
        run = self.bound.record
        if run.status in UNFINISHED or self.bound.run.report is None:
            yield (
                f"the run did not finish, it is {run.status.value}: "
                f"`tallyman resume {run.name}` continues it"
            )
        if not self.bound.config_is_bound:
            yield "config.json of the run does not match its manifest: it was changed since"

    def environment(self) -> list[str]:
        """List versions of tools and packages that differ from those of the run: they may explain a
        difference."""
        if self.bound.seal_change is not None:
            return []
        settings = self.definitions.settings
        then = self.bound.manifest.environment
        now = environment(settings.master, settings.spark)
        pairs = [(name, then[name], now[name]) for name in VERSIONS]
        packages = sorted({**then["packages"], **now["packages"]})
        pairs += [
            (f"package {n}", then["packages"].get(n), now["packages"].get(n)) for n in packages
        ]
        return [f"{name}: {old} then, {new} now" for name, old, new in pairs if old != new]

    @property
    def commit(self) -> str | None:
        """The git commit of the run's code, if known."""
        if self.bound.seal_change is not None:
            return None
        return self.bound.manifest.code.git_commit

    # ---- one target ------------------------------------------------------------------------

    def not_to_make(self, row: Materialization) -> TargetAgain | None:
        """Return the verdict on a target that is not made again; None if it can be made."""
        if row.status is Status.SKIPPED:
            by = str(row.metadata.get("unchanged_since") or self._run_of(row))
            return TargetAgain(target=row.target, verdict=Verdict.REUSED, made_by=by)
        if not _left_a_ledger(row):
            reason = row.error_message or "an input did not succeed, or the run ended first"
            reasons = (f"{row.status.value} then: {reason}",)
            never = row.status in UNFINISHED
            verdict = Verdict.NOT_MADE if never else Verdict.NOT_COMPARED
            return TargetAgain(target=row.target, verdict=verdict, reasons=reasons)
        against = tuple(self._against(row))
        if against:
            verdict = Verdict.NOT_REPRODUCIBLE
            return TargetAgain(target=row.target, verdict=verdict, reasons=against)
        return None

    def _run_of(self, row: Materialization) -> str:
        assert row.reused_id is not None
        wanted = row.reused_id

        def work(tx: Any) -> str:
            made = Reads(tx).result(wanted)
            return Runs(tx).by_id(made.run_id).name if made else str(wanted)

        return self.definitions.database.durably(work)

    def _against(self, row: Materialization) -> Iterator[str]:
        if self.bound.seal_change is not None or not self.bound.config_is_bound:
            return  # its thresholds are unknown, and the whole run is refused
        if row.target.asset not in self.definitions.pipeline.assets:
            yield f"asset {row.target.asset} is no longer declared{self._checkout}"
            return
        try:
            ledger_in(self.place(row.target))
        except (NotFound, ValueError):
            yield f"its ledger in {self.bound.record.folder} is missing or damaged"
            return
        changed = self._redefined(row)
        if changed:
            yield changed
            return  # its inputs may differ as a consequence
        try:
            pins = self.pins.as_read(row)
        except InputMissing as error:
            yield f"an input is missing: {error}"
            return
        except InputUnreadable as error:
            yield str(error)
            return
        stored = [*self._purged(row, pins), *self._damaged(pins)]
        yield from stored
        if not stored:
            yield from self._changed(row, pins)

    # ---- its definition ---------------------------------------------------------------------

    def pinned(self, asset: str) -> tuple[Evidence, Thresholds]:
        """Return evidence and thresholds as in the run."""
        then = self.bound.config["assets"][asset]
        return Evidence(then["evidence"]), Thresholds.of(then["thresholds"])

    def _redefined(self, row: Materialization) -> str | None:
        name = row.target.asset
        evidence, thresholds = self.pinned(name)
        found = Definitions.of(self.definitions.workspace, [name], evidence, thresholds)
        now = found.hash(name)
        bound = self.bound.manifest.definitions[name]
        then = row.definition_hash or bound
        if now == then:
            return None
        reason = f"asset {name} has another definition now: {then} then, {now} now"
        if then != bound:
            return f"{reason}. The run was resumed with that definition, whose commit is unknown"
        return f"{reason}{self._checkout}"

    @property
    def _checkout(self) -> str:
        code = self.bound.manifest.code
        if code.git_commit:
            return f". The run used commit {code.git_commit}"
        return f". The run's commit is unknown; the hash of its files is {code.source_hash}"

    # ---- its inputs -------------------------------------------------------------------------

    def _purged(self, row: Materialization, pins: Mapping[str, Pin]) -> Iterator[str]:
        """Find purged parts of a version; they are in no list of files."""
        reads = self.definitions.database.durably(lambda tx: Reads(tx).inputs(row.id))
        wanted = Counter(read.name for read in reads if read.fragment_id is not None)
        for name, pin in pins.items():
            if pin.reading.of_source:
                continue
            lost = max(wanted[name] - len(pin.fragments), int(not pin.fragments))
            if lost > 0:
                yield f"{lost:,} of {max(wanted[name], 1):,} parts of {name} were purged"

    def _damaged(self, pins: Mapping[str, Pin]) -> Iterator[str]:
        for name, pin in pins.items():
            problem = damage(self.pins.workspace.warehouse, pin.fragments)
            if problem:
                yield f"Input data has changed: {name}: {problem}"

    def _changed(self, row: Materialization, pins: Mapping[str, Pin]) -> Iterator[str]:
        """Find changed sources. The inputs of a result are known from its row; those of a halted
        target from its ledger and the manifest."""
        consumed = [each for pin in pins.values() for each in pin.consumed()]
        if row.dependency_hash == dependency_hash(consumed):
            return
        found = [reason for pin in pins.values() for reason in self._source_changed(row, pin)]
        yield from found
        if row.dependency_hash and not found:
            yield "its inputs differ from those it read: they changed before the run was resumed"

    def _source_changed(self, row: Materialization, pin: Pin) -> Iterator[str]:
        if not pin.reading.of_source:
            return
        name = label(pin.reading)
        bound = self.bound.manifest.inputs.get(name) or BoundInput(kind=SOURCE)
        then = self._at_the_door(row).get(pin.reading.name, bound.hash)
        for changed in changes({name: then}, {name: pin.files.content_hash}):
            files, size = len(pin.files.files), pin.files.bytes
            now = replace(bound, hash=changed.now, files=files, bytes=size)
            yield input_change(name, replace(bound, hash=changed.then), now).message

    def _at_the_door(self, row: Materialization) -> dict[str, str]:
        """Return the hash of each input it accounts for; empty for a replay, which does not
        distinguish them."""
        place = self.place(row.target)
        accounted = accounted_inputs(self.definitions.pipeline.assets[row.target.asset].plan())
        if (place / FOLDER / FACTS).exists():
            return {}
        return ledger_in(place).inputs.hashes_of(accounted)


def _left_a_ledger(row: Materialization) -> bool:
    """True if the target has a ledger to compare: of a result, a halt, or a failed count."""
    then = result_of(row)
    counted = (then.error or {}).get("code") in COUNTED
    return row.content_digest is not None or then.status is Status.HALTED or counted
