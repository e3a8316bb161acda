"""Past results: what made them, what they read, and whether that still exists."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tallyman.control.bind.changes import ChangedInput, changes
from tallyman.control.bind.inputs import Pins
from tallyman.control.bind.vouch import vouched
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.redaction import hidden_columns, known_key
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.account.redaction import covers, hashed, without_redacted
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.walk import Record
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.version.dataset import Dataset, Fragment
from tallyman.domain.version.owner import Owner
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.replay_folder import FACTS, FOLDER
from tallyman.engine.files.run_folder import LEDGER
from tallyman.engine.files.vouched import Vouched
from tallyman.errors import DigestsDiffer, EvidenceGone, NotFound
from tallyman.on_demand import OnDemand
from tallyman.query.walk.inputs import PastInput, PastInputs
from tallyman.registry.database import Transaction
from tallyman.registry.run.reads import Reads
from tallyman.registry.run.runs import Runs
from tallyman.registry.version.commits import Commits

if TYPE_CHECKING:
    from tallyman.control.verify import by_digest, reopen
else:
    by_digest = OnDemand("tallyman.control.verify.by_digest")
    reopen = OnDemand("tallyman.control.verify.reopen")

EVIDENCE = ("adjoint", "errors", FOLDER)
"""The folders of a target that say where its records went, and with which corrections."""


@dataclass(frozen=True)
class Result:
    """A result, the run that made it, and its files."""

    made: Materialization
    run: RunRecord
    place: Path
    inputs: tuple[PastInput, ...]
    asset: Asset | None
    plan: Frame | None
    as_defined: bool
    """True if the asset's definition is the same as in that run."""
    vouched: Vouched

    @cached_property
    def ledger(self) -> StoredLedger:
        return self.vouched.ledger(self.place)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The content hash of each source that it read, without the corrections of a replay."""
        read = self.made.metadata.get("inputs", ())
        found = {str(one["name"]): str(one["hash"]) for one in read if one["kind"] == "source"}
        if found or self.plan is None:
            return found
        return self.ledger.inputs.hashes_of(accounted_inputs(self.plan))  # it did not succeed

    @cached_property
    def replay(self) -> Mapping[str, Any] | None:
        """The facts of a replay; None if it is none."""
        return self.vouched.json(self.place / FOLDER / FACTS)

    @property
    def replays_some(self) -> bool:
        """True if it is a replay that read the chosen records and no others."""
        return self.replay is not None and not self.replay["whole"]

    @property
    def reads_corrections(self) -> bool:
        """True if the records that it read are not those in the files of its inputs."""
        return self.replays_some or bool(self.replay and self.replay["corrected"])

    @property
    def has_evidence(self) -> bool:
        """True if the run left a ledger. Also True if only the ledger is missing: that is damage,
        reported when it is read."""
        ledger = self.place / LEDGER
        return ledger.exists() or (self.vouched.knows(ledger) and self.place.is_dir())

    @property
    def accounted(self) -> list[PastInput]:
        """The inputs whose records it accounts for; if the asset was removed, all its inputs."""
        if self.plan is None:
            return list(self.inputs)
        wanted = set(accounted_inputs(self.plan))
        return [given for given in self.inputs if given.name in wanted]

    @property
    def names_places(self) -> bool:
        """True if its evidence identifies records by place, because their keys repeat."""
        return self.ledger.inputs.named_by_place

    @property
    def unsure(self) -> str | None:
        """Why a key in its evidence may match more records than it should."""
        if self.ledger.inputs.duplicate_keys is not None:
            return None
        run = self.run.name
        return (
            f"records are found by their key, and run {run} had too many records to count "
            f"repeated keys: `tallyman verify {run} --exact` counts them"
        )

    @property
    def digests_only(self) -> bool:
        return not self.ledger.has_keys


@dataclass
class Past:
    """Opens each past result once. Spark starts only to recompute keys, or to evaluate a plan."""

    workspace: Workspace
    starting: Callable[[str], None]
    """Called with the reason when Spark has to start, which takes a while."""
    _others: dict[Owner, Past] = field(default_factory=dict)
    _results: dict[UUID, Result] = field(default_factory=dict)
    _vouched: dict[UUID, Vouched] = field(default_factory=dict)
    _hashes: dict[tuple[str, str | None], Future[str]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "hash"))

    @property
    def inputs(self) -> PastInputs:
        return PastInputs(self.workspace)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for other in self._others.values():
            other.close()

    def of(self, owner: Owner) -> Past:
        """Return the past of another pipeline, in its own project folder; or raise
        PipelineOutOfReach."""
        if owner == self.workspace.owner:
            return self
        if owner not in self._others:
            other = self.workspace.other(owner)
            self._others[owner] = Past(other, self.starting)
        return self._others[owner]

    def at(self, result: Result) -> Past:
        """Return the past of the pipeline that made the result."""
        return self.of(result.run.owner)

    @property
    def secret(self) -> str:
        return known_key(self.workspace.settings)

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Columns whose values are never shown."""
        if not self.workspace.settings.redacted:
            return frozenset()
        plans = [asset.plan() for asset in self.workspace.pipeline.assets.values()]
        return hidden_columns(plans, self.workspace.settings.redacted)

    def shown(self, record: Record, key: Collection[str]) -> Record:
        """Return the record without redacted values; a line that could not be parsed is hidden
        whole."""
        if not self.hidden:
            return record
        values = without_redacted({*self.hidden, "line"}, record.values)
        hides = any(covers(self.hidden, name) for name in key) and record.key is not None
        shown_key = hashed(self.secret, str(record.key)) if hides else record.key
        return replace(record, key=shown_key, values=values)

    def result(self, wanted: UUID) -> Result:
        if wanted not in self._results:
            database = self.workspace.database
            owner = database.durably(lambda tx: Reads(tx).owner_of(wanted))
            past = self.of(owner) if owner else self
            self._results[wanted] = database.durably(lambda tx: past._result(tx, wanted))
        return self._results[wanted]

    def opened(self, wanted: UUID, dataset: str) -> Result:
        """Open a result after checking its evidence, and start hashing its sources."""
        result = self.result(wanted)
        self.evidence_of(result, dataset)
        self.at(result)._hash_ahead(result)
        return result

    def _result(self, tx: Transaction, wanted: UUID) -> Result:
        made = Reads(tx).result(wanted)
        if made is None:
            raise NotFound("result", str(wanted))
        if made.reused_id is not None:
            return self._result(tx, made.reused_id)
        run = Runs(tx).by_id(made.run_id)
        asset = self.workspace.pipeline.assets.get(made.target.asset)
        plan = asset.plan() if asset else None
        folder = self.workspace.home / run.folder
        if run.id not in self._vouched:
            self._vouched[run.id] = vouched(tx, self.workspace.settings, run, folder)
        known = self._vouched[run.id]
        return Result(
            made=made,
            run=run,
            place=self._place(made, folder, known),
            vouched=known,
            inputs=tuple(self.inputs.of(tx, made, run)),
            asset=asset,
            plan=plan,
            as_defined=bool(asset and plan and self._same(asset, plan, made, run)),
        )

    def _same(self, asset: Asset, plan: Frame, made: Materialization, run: RunRecord) -> bool:
        """True if the asset's definition is the one that made the result."""
        options = run.params.options
        evidence, thresholds = options.evidence, options.thresholds
        now = Definitions.of(self.workspace, [asset.name], evidence, thresholds)
        return now.hash_of(asset, plan) == made.definition_hash

    def _place(self, made: Materialization, folder: Path, known: Vouched) -> Path:
        if made.location:
            return (self.workspace.home / made.location).parent
        opened = Run.open(folder, vouched=known)
        return opened.place(made.target.asset, made.target.partition)[1]

    def evidence_of(self, result: Result, dataset: str) -> None:
        """Check the evidence. Raises EvidenceGone if it no longer exists, RunDamaged if it was
        changed."""
        if not result.has_evidence:
            folder = os.path.relpath(result.place, self.workspace.home)
            raise EvidenceGone(dataset, result.run.name, folder)
        result.vouched.check(result.place, *EVIDENCE)

    def output_of(self, dataset: Dataset | None, fragment: Fragment | None) -> list[str]:
        """List the files of a result's rows, after checking them."""
        if dataset is None or fragment is None:
            return []
        self.workspace.warehouse.check(dataset.name, [fragment])
        return self.workspace.warehouse.paths([fragment])

    def commit_of(self, dataset: Dataset, version: int) -> tuple[str, str]:
        """Return the commit that made a version, and its actor."""

        def work(tx: Transaction) -> tuple[str, str]:
            at = Commits(tx).version(dataset, version)
            commit = Commits(tx).get(str(at.commit_id), dataset.owner)
            return str(commit.id), commit.actor

        return self.workspace.database.durably(work)

    # ---- changed inputs -------------------------------------------------------------------

    def _hash_ahead(self, result: Result) -> None:
        """Hash the sources in the background while evidence is read."""
        for given in result.inputs:
            if given.kind == "source" and given.files is not None:
                self._hash(given, given.files)

    def _hash(self, given: PastInput, files: InputFiles) -> Future[str]:
        place = (given.name, given.partition)
        if place not in self._hashes:
            self._hashes[place] = self._pool.submit(lambda: files.content_hash)
        return self._hashes[place]

    def changed(self, result: Result, given: PastInput) -> str | None:
        """Return why a source's current files are not those that the run read; None if they are."""
        if given.missing:
            return f"{given.missing}: the records that run {result.run.name} read cannot be shown"
        then = result.hashes
        if given.kind != "source" or not then:
            return None
        if given.name not in then:
            return f"run {result.run.name} did not record what it read of it"
        now = None if given.files is None else self._hash(given, given.files).result()
        found = changes({given.name: then[given.name]}, {given.name: now})
        return _differs(result, found[0]) if found else None

    # ---- keys -------------------------------------------------------------------------

    def start_spark(self, reason: str) -> None:
        if not self.workspace.session.is_up():
            self.starting(reason)
        self.workspace.spark()

    @contextmanager
    def evidence(self, result: Result) -> Iterator[Path]:
        """Yield the folder with keys: the run's own, or recomputed keys whose digests agree."""
        groups = any(sub.unit != "child" for sub in result.ledger.sub_ledgers)
        if not result.digests_only or not groups:
            yield result.place
            return
        self.start_spark(f"run {result.run.name} stored digests instead of keys")
        with by_digest.recomputed(self.again(result)) as found:
            if found.broken:
                target = str(result.made.target)
                raise DigestsDiffer(target, result.run.name, found.broken, self._why(result))
            yield found.folder

    def again(self, result: Result) -> reopen.Again:
        pins = Pins(self.workspace, ordinals=result.run.pins)
        clock = datetime.fromisoformat(f"{result.run.started_at:%Y-%m-%dT%H:%M:%SZ}")
        return reopen.Again(result.made.target, result.place, result.run.id, clock, pins)

    def _why(self, result: Result) -> str:
        for given in result.accounted:
            if self.changed(result, given):
                return f"the files of {given.name} changed since"
        if not result.as_defined:
            return "the asset has another definition now"
        return "the run's files were changed, or the plan is not deterministic"


def _differs(result: Result, changed: ChangedInput) -> str:
    short = [str(one).removeprefix("sha256:")[:12] for one in (changed.then, changed.now)]
    return (
        f"its files changed since run {result.run.name} read them "
        f"(sha256 {short[0]}… then, {short[1]}… now)"
    )
