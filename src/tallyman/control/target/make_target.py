"""Make one assigned target: Spark and files, no database. A local run does it in its process, a
worker in a child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid5

from tallyman import faults
from tallyman.control.bind.manifest import inputs_read
from tallyman.control.bind.pinned_files import Pin, PinnedFiles
from tallyman.control.conclude.exports import records_of, refuse_foreign_files
from tallyman.control.openlineage.run import RunEvents
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.target.assignment import Assignment, EarlierResult, TargetOutcome
from tallyman.control.target.segments_made_from import segments_made_from
from tallyman.control.target.target_inputs import TargetInputs
from tallyman.control.target.timings import Stopwatch
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import (
    REJECTIONS_FRAGMENT,
    Consumed,
    Made,
    Materialization,
    dependency_hash,
)
from tallyman.domain.history.run import AssetResult, RunIdentity, Status
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.files.run_folder import LEDGER, RunFolder
from tallyman.engine.files.sizes import sizes
from tallyman.engine.observer import Observer
from tallyman.engine.source.door_memory import DoorMemory
from tallyman.errors import TallymanError
from tallyman.faults import Point
from tallyman.on_demand import OnDemand, imported_meanwhile
from tallyman.state_folder import ready

MAKING_TARGETS = (
    "tallyman.control.target.make",
    "tallyman.control.target.prepare_fragments",
    "tallyman.engine.asset.work",
)
"""Modules that are needed only where a target is made; imported while Spark starts."""
SPARK = "tallyman.engine.spark.session"
if TYPE_CHECKING:
    from tallyman.control.target import make, prepare_fragments
    from tallyman.control.target.make import Making
    from tallyman.engine.asset import work as works
    from tallyman.engine.asset.work import Work
else:
    make, prepare_fragments, works = map(OnDemand, MAKING_TARGETS)


class MakingHooks(Observer):
    """A receiver of what happens while a target is made. This one ignores it."""

    def started(self, definition: str, events: list[LineageEvent]) -> None:
        """Receive the start: it is not unchanged, and its inputs are about to be read."""

    def opened(self, fragment: Fragment) -> None:
        """Receive a fragment whose files are about to be in the warehouse."""


@dataclass(frozen=True, slots=True)
class TargetWork:
    assignment: Assignment
    definitions: Definitions
    folder: RunFolder
    lineage: RunEvents
    hooks: MakingHooks

    @property
    def asset(self) -> Asset:
        return self.definitions.pipeline.assets[self.assignment.target.asset]

    @property
    def name(self) -> str:
        """The name of the target's folder in the run folder."""
        return folder_of(self.definitions.pipeline.assets, self.assignment.target)

    @property
    def identity(self) -> RunIdentity:
        return self.assignment.run.identity

    @property
    def _fragments(self) -> prepare_fragments.PreparedFragments:
        workspace = self.definitions.workspace
        opened = self.hooks.opened
        return prepare_fragments.PreparedFragments(
            self.assignment, workspace.warehouse, workspace.home, opened
        )

    def inputs(self, files: PinnedFiles) -> TargetInputs:
        """Pin what is assigned; doors that earlier runs measured are not measured again."""
        settings = self.definitions.settings
        doors = DoorMemory(ready(settings.state_folder) / "doors", settings.column_metrics)
        return TargetInputs(files.of(self.assignment.target, self.assignment.inputs), memory=doors)

    # ---- unchanged -------------------------------------------------------------------------

    def reused(self, pins: Mapping[str, Pin]) -> TargetOutcome | None:
        """Reuse the earlier result if all input content is the same; None if it has to be made."""
        earlier = self.assignment.earlier
        if earlier is None or not self._has_rejections(earlier):
            return None
        last = earlier.made
        if dependency_hash(consumed(pins)) != last.dependency_hash:
            return None
        target = self.assignment.target
        result = replace(
            AssetResult.of(target, Status.SKIPPED),
            rows_out=earlier.rows,
            unchanged_since=str(last.metadata.get("run", last.run_id)),
        )
        # Publishing a result also publishes the datasets it registered.
        beside: dict[str, Any] = {"registered": last.metadata.get("registered", [])}
        beside |= {"meta": dict(self.asset.meta)}
        new, rejections = self._rejections_again(earlier)
        return TargetOutcome(
            target=target,
            result=result,
            metadata=result.to_json() | beside | rejections,
            reused=last.id,
            rejections=new,
        )

    def _has_rejections(self, earlier: EarlierResult) -> bool:
        """False if the rejections of a result are to be published, and its run folder is gone."""
        if self.asset.publish_rejections is None or earlier.rejections is not None:
            return True
        return (self._place(earlier.made) / LEDGER).exists()

    def _rejections_again(self, earlier: EarlierResult) -> tuple[Fragment | None, dict[str, str]]:
        """Publish the rejections of a reused result too. If they are published only since, they
        are prepared now, from its dead letters."""
        if self.asset.publish_rejections is None:
            return None, {}
        if earlier.rejections is not None:
            return None, {REJECTIONS_FRAGMENT: str(earlier.rejections)}
        last = earlier.made
        tallied = int(last.metadata.get("rejections", 0))
        new = self._fragments.rejections(self.asset, self._place(last), tallied)
        return new, {REJECTIONS_FRAGMENT: str(new.id)} if new else {}

    def _place(self, made: Materialization) -> Path:
        return (self.definitions.settings.home / str(made.location)).parent

    # ---- making ----------------------------------------------------------------------------

    def started(self, inputs: TargetInputs) -> Work:
        """Say that the target is made now, and describe the work on it."""
        assignment, definitions = self.assignment, self.definitions
        target, attempt = assignment.target, assignment.attempt
        with imported_meanwhile(*MAKING_TARGETS, after=SPARK):
            definitions.checked()  # Spark starts here, if nothing needed it before
        events = self.lineage.started(target, attempt)
        self.hooks.started(definitions.hash(target.asset), events)
        faults.reach(Point.ASSET_STARTED)
        folders = works.Folders(*self.folder.begin(self.name, attempt), definitions.settings.home)
        work = make.work_on(definitions, target, self.identity, folders)
        # The records of a replay are not among its inputs, so its segments are not reused.
        made_from: dict[str, str] = {}
        if not inputs.corrections:
            made_from = segments_made_from(definitions, assignment.options, target, inputs.pins)
        tag, limited = str(assignment.run.id), self.asset.retry is not None
        return replace(
            work,
            attempt=attempt,
            tag=tag,
            attempt_tag=attempt_tag(assignment) if limited else None,
            made_from=made_from,
            volume=work.volume.compared(assignment.before, assignment.options.accept_shrink),
        )

    def make(self, work: Work, inputs: TargetInputs) -> Making:
        """Evaluate and prove the target; its files are not in their place yet."""
        refuse_foreign_files(records_of(self.definitions.settings), work)
        maker = make.Maker(self.definitions.spark(), self.definitions.checked())
        return maker.make(work, inputs, self.hooks)

    # ---- outcome ---------------------------------------------------------------------------

    def outcome(self, work: Work, making: Making, pins: Mapping[str, Pin]) -> TargetOutcome:
        """Describe what was made, whose files are where `work` says, and take the output into the
        warehouse as a fragment that is not in any version yet."""
        target, place = work.target, work.folders.result
        metadata = making.metadata(work.run) | {"bytes": sizes(place)}
        metadata |= {"meta": dict(work.asset.meta)}
        if making.digest is None:
            return TargetOutcome(
                target=target,
                result=making.result,
                metadata=metadata,
                events=tuple(self.lineage.ended(target, making.result, pins, place)),
                retryable=making.error is not None and making.error.retryable,
            )
        asks = work.asset.approval if making.asks else None
        made = self._prepared(work, making, pins, making.digest, metadata)
        result = making.result.with_status(Status.WAITING) if asks else making.result
        rejections = made.metadata.get(REJECTIONS_FRAGMENT)
        listed = [f for f in made.registered if str(f.id) == rejections]
        paths = self.definitions.workspace.warehouse.paths(listed) if listed else None
        events = self.lineage.ended(target, result, pins, place, paths)
        return TargetOutcome(
            target=target,
            result=result,
            metadata=made.metadata,
            made=made,
            asks=asks,
            events=tuple(events),
        )

    def _prepared(
        self,
        work: Work,
        making: Making,
        pins: Mapping[str, Pin],
        digest: str,
        metadata: Mapping[str, object],
    ) -> Made:
        spark, watch, place = self.definitions.spark(), Stopwatch("staging"), work.folders.result
        fragments = self._fragments
        fragment, counts = fragments.prepare(spark, work.asset, place, digest)
        beside = fragments.registered(spark, place)
        if beside:
            counts = counts | {"registered": [str(one.id) for one in beside]}
        if rejections := self._rejections(work, making.result):
            counts |= {REJECTIONS_FRAGMENT: str(rejections.id)}
            beside = (*beside, rejections)
        replay = self.assignment.options.replay
        # A replay that adds rows read only the replayed records.
        read = {} if replay and work.asset.name in replay.adds else making.records_read
        counts |= {"inputs": inputs_read(pins, read)}
        counts |= {"timings": [*map(dict, making.timings), *watch.stop()]}
        return Made(
            consumed=tuple(consumed(pins)),
            digest=digest,
            location=f"{self.assignment.run.folder}/{self.name}/output",
            fragment=fragment,
            metadata={**metadata, **counts},
            registered=beside,
        )

    def _rejections(self, work: Work, result: AssetResult) -> Fragment | None:
        """Prepare the rejections. Records that a replay adds are not all of the asset: its dataset
        of rejections stays as the run before it left it."""
        replay = self.assignment.options.replay
        if replay is not None and work.asset.name in replay.adds:
            return None
        return self._fragments.rejections(work.asset, work.folders.result, result.rejections)


def failed(lineage: RunEvents, target: Target, attempt: int, error: TallymanError) -> TargetOutcome:
    """Describe a target that could not be made."""
    result = AssetResult.of(target, Status.FAILED, attempt=attempt, error=error.facts())
    return TargetOutcome(
        target=target,
        result=result,
        metadata=result.to_json(),
        events=tuple(lineage.failed(target, result)),
        retryable=error.retryable,
    )


def attempt_tag(assignment: Assignment) -> str:
    """Return the tag of the Spark jobs of one attempt."""
    return str(uuid5(assignment.run.id, f"{assignment.target}:{assignment.attempt}"))


def consumed(pins: Mapping[str, Pin]) -> list[Consumed]:
    return [one for pin in pins.values() for one in pin.consumed()]
