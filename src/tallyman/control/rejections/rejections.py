"""List, replay and discard rejections."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.redaction import known_key
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.rejections.chosen import Chosen
from tallyman.control.rejections.find import rejected
from tallyman.control.rejections.prepare import Preparation
from tallyman.control.rejections.replay import ReplayTargetMaker, TargetReplay
from tallyman.control.run import begin
from tallyman.control.run.execute import Execution
from tallyman.control.run.progress import Listener
from tallyman.control.run.workbench import Workbench
from tallyman.control.target.make import Maker, work_on
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.redaction import hashed
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.options import Options, ReplayOptions
from tallyman.domain.history.run import AssetResult, RunIdentity, RunResult
from tallyman.domain.history.walk import Correction
from tallyman.domain.pipeline.selection import find_asset
from tallyman.domain.pipeline.target import folder_of
from tallyman.engine.asset.work import Folders
from tallyman.engine.files.replay_folder import changed_records, corrections_of
from tallyman.engine.readback.dead_letters import Letters, rejected_keys
from tallyman.errors import NotFound, UsageError
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.resolutions import Resolutions
from tallyman.registry.version.datasets import Datasets
from tallyman.state_folder import ready

MOST = 20
"""The corrected records that a dry run shows of each target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The outcome of replaying one target's records; `reasons` are those of records rejected
    again."""

    target: str
    whole: bool
    replayed: int
    passed: int
    rejected: int
    filtered: int
    """Unknown if all records are evaluated again: 0."""
    result: AssetResult
    reasons: Sequence[Mapping[str, Any]] = ()
    corrections: Sequence[Correction] = ()
    """What a dry run would correct, the first MOST records of `corrected`."""
    corrected: int = 0

    def to_json(self) -> dict[str, object]:
        return {
            "asset": self.target,
            "mode": "whole" if self.whole else "records",
            "replayed": self.replayed,
            "passed": self.passed,
            "rejected": self.rejected,
            "filtered": self.filtered,
            "reasons": list(self.reasons),
            "corrected": self.corrected,
            "corrections": [one.to_json() for one in self.corrections],
            "ledger": self.result.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of a replay. `records` counts the rejections by state before it. `run` is None if
    nothing was open or it was a dry run."""

    of: str
    records: Mapping[str, int]
    replays: Mapping[str, Mapping[str, int]]
    outcomes: Sequence[ReplayOutcome] = ()
    run: RunResult | None = None


@dataclass(frozen=True, slots=True)
class Rejections:
    workspace: Workspace

    # ---- list ---------------------------------------------------------------------------------

    def summary(self, chosen: Chosen, *, only_open: bool = False) -> list[dict[str, Any]]:
        """Count rejections by target, type and step, in total and by state."""
        with rejected(self.workspace.database, chosen) as found:
            return found.letters.summary(only_open=only_open)

    def listed(
        self,
        chosen: Chosen,
        *,
        key: str | None = None,
        kind: str | None = None,
        only_open: bool = False,
        limit: int = 20,
    ) -> tuple[int, list[dict[str, Any]]]:
        with rejected(self.workspace.database, chosen) as found:
            return found.letters.listed(
                key=key,
                hidden=hashed(known_key(self.workspace.settings), key) if key is not None else None,
                kind=kind,
                where=chosen.where,
                only_open=only_open,
                limit=limit,
            )

    def counts(self, chosen: Chosen) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Count records by state, and by the replay that resolved them."""
        with rejected(self.workspace.database, chosen) as found:
            return found.letters.records(), found.letters.replays()

    # ---- discard ------------------------------------------------------------------------------

    def discard(self, chosen: Chosen, reason: str) -> dict[str, int]:
        """Discard open rejections. Return the number of records per target."""
        record = _known(chosen)
        if not reason.strip():
            raise UsageError("--reason must not be empty")
        key, actor = uuid4(), self.workspace.actor
        with rejected(self.workspace.database, chosen) as found:
            found.letters.choose(chosen.where)
            targets = found.letters.targets()

            def work(tx: Transaction) -> None:
                resolutions = Resolutions(tx)
                for name in targets:
                    one = found.standings[name]
                    keys = ((k, "discarded") for k in found.letters.discardable(name))
                    resolutions.add(one.run_id, one.target, keys, actor=actor, reason=reason)
                details = {"reason": reason, "where": chosen.where, "records": targets}
                Audit(tx, record.owner).add(
                    "rejections.discarded", actor, record.name, run=record.id, details=details,
                    key=key,
                )  # fmt: skip

            if targets:
                self.workspace.database.durably(work)
        return targets

    # ---- replay -------------------------------------------------------------------------------

    def replay(
        self,
        chosen: Chosen,
        *,
        corrected: Path | None = None,
        dry_run: bool = False,
        listen: Listener = lambda *_: None,
    ) -> Replayed:
        record = _known(chosen)
        ordinals = self.workspace.database.durably(
            lambda tx: Datasets(tx).ordinals(self.workspace.owner)
        )
        with rejected(self.workspace.database, chosen) as found, self._aside() as aside:
            letters = found.letters
            nothing = Replayed(of=record.name, records=letters.records(), replays=letters.replays())
            letters.choose(chosen.where)
            if not letters.targets():
                return nothing
            assets = list(dict.fromkeys(found.standings[n].target.asset for n in letters.targets()))
            then = record.params.options
            options = Options(evidence=then.evidence, thresholds=then.thresholds)
            definitions = Definitions.of(
                self.workspace, assets, options.evidence, options.thresholds
            )
            for name in assets:
                find_asset(definitions.pipeline, name)
            preparation = Preparation(
                definitions=definitions, rejected=found, aside=aside, ordinals=ordinals
            )
            preparation.check()
            items = preparation.items(corrected)
            if not items:
                return nothing
            if dry_run:
                tried = [self._tried(preparation, item, letters) for item in items]
                return replace(nothing, outcomes=tried)
            execution = self._begun(preparation, items, options, listen)
            try:
                result = execution.execute()
            except KeyboardInterrupt:
                execution.abandon()
                raise
            outcomes = self._outcomes(result, items, letters)
        return replace(nothing, outcomes=outcomes, run=result)

    @contextmanager
    def _aside(self) -> Iterator[Path]:
        """Yield a temporary folder that Spark can read and that is not among results."""
        place = ready(self.workspace.settings.state_folder)
        with tempfile.TemporaryDirectory(prefix="replay-", dir=place) as folder:
            yield Path(folder)

    def _begun(
        self,
        prepared: Preparation,
        items: Sequence[TargetReplay],
        options: Options,
        listen: Listener,
    ) -> Execution:
        replay = ReplayOptions(
            adds=tuple(sorted({item.target.asset for item in items if not item.whole})),
            taken_back=tuple(prepared.rejected.taken_back),
            records={str(item.target): item.records for item in items},
        )
        asked = begin.Begun(
            actor=self.workspace.actor,
            identity=RunIdentity.of(None, now=datetime.now(UTC)),
            targets=[item.target for item in items],
            options=Options(
                evidence=options.evidence,
                thresholds=options.thresholds,
                replay_of=items[0].standing.run,
                replay=replay,
            ),
            pins=prepared.ordinals,
        )
        definitions, targets = prepared.definitions, {item.target: item for item in items}
        journal = begin.register(asked, definitions)
        bench = Workbench.of(definitions, journal, asked.options, asked.targets, listen)
        return Execution(bench, ReplayTargetMaker(bench, targets, prepared.rejected))

    def _tried(self, prepared: Preparation, item: TargetReplay, letters: Letters) -> ReplayOutcome:
        """Evaluate the replay in a temporary folder, and keep nothing."""
        definitions = prepared.definitions
        tried = item.aside.with_name(f"{item.aside.name}.try")
        place, scratch = tried / "made", tried / "work"
        place.mkdir(parents=True)
        scratch.mkdir()
        identity = RunIdentity.of("dry-run", now=datetime.now(UTC))
        folders = Folders(place, scratch, self.workspace.home)
        work = replace(work_on(definitions, item.target, identity, folders), tag="dry-run")
        maker = Maker(definitions.spark(), definitions.checked())
        inputs = item.inputs(item.pins(prepared.pins))
        making = maker.make(item.adapted(work, prepared.pins), inputs)
        outcome = _outcome(item, making.result, place, letters)
        at = str(item.facts["corrected_at"])
        corrected, rows = changed_records(item.aside, at, MOST)
        return replace(outcome, corrected=corrected, corrections=corrections_of(rows))

    def _outcomes(
        self, result: RunResult, items: Sequence[TargetReplay], letters: Letters
    ) -> list[ReplayOutcome]:
        folder = self.workspace.home / result.folder
        made = {(one.name, one.partition): one for one in result.assets}
        found = []
        for item in items:
            target = item.target
            place = folder / folder_of(self.workspace.pipeline.assets, target)
            found.append(_outcome(item, made[target.asset, target.partition], place, letters))
        return found


def _outcome(
    item: TargetReplay, result: AssetResult, place: Path, letters: Letters
) -> ReplayOutcome:
    name = str(item.target)
    with Letters({name: place}) as new:
        new.only(letters.record_keys(name))
        reasons = new.summary()
    again = letters.again(name, rejected_keys(place))
    filtered = 0 if item.whole else result.fates.get(Fate.FILTERED, 0)
    return ReplayOutcome(
        target=name,
        whole=item.whole,
        replayed=item.records,
        passed=item.records - again - filtered if result.status.good else 0,
        rejected=again,
        filtered=filtered,
        result=result,
        reasons=reasons,
    )


def _known(chosen: Chosen) -> RunRecord:
    if chosen.record is None:
        raise NotFound("run in the registry", chosen.run.run_id)
    return chosen.record
