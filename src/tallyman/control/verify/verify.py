"""Verify a past run from its files, and with `exact` also from its inputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from pyarrow import ArrowException
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tallyman.control.bind.changes import changes
from tallyman.control.seal.check import ChangedFile, Sealed
from tallyman.control.verify.by_digest import compare_by_digest
from tallyman.control.verify.reopen import Again
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.ledger import Discrepancy
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.seal import Seal
from tallyman.domain.pipeline.target import Target
from tallyman.engine.asset.asset_run import of_spark
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.evidence.proof import compare_keys, compare_units
from tallyman.engine.evidence.recount import recount
from tallyman.engine.files.past_run import Run, ledger_in
from tallyman.engine.files.run_folder import LEDGER, MANIFEST, REPORT
from tallyman.engine.readback.compare_results import output_gone
from tallyman.engine.source import repeated
from tallyman.errors import NotFound, RunDamaged, TallymanError
from tallyman.errors.wording import first_line
from tallyman.registry.database import Transaction
from tallyman.registry.run.reads import Reads
from tallyman.registry.run.replays import Replays
from tallyman.registry.run.runs import Runs

Opened: TypeAlias = Callable[[Run], Callable[[Target, Path], Again]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a verification. `verified` means balanced, sealed and unchanged since."""

    run_id: str
    balanced: bool
    found: Discrepancy
    sealed: Sealed
    reasons: list[str] = field(default_factory=list)
    repeated_keys: Mapping[str, int] = field(default_factory=dict)
    """Records that share a key with another, by target; only for targets whose run did not count
    them."""

    @property
    def verified(self) -> bool:
        sealed = self.sealed
        return self.balanced and sealed.seal is not None and not sealed.problems

    @property
    def changes(self) -> tuple[ChangedFile, ...]:
        return self.sealed.changes

    def to_json(self) -> dict[str, object]:
        return {
            "run_id": self.run_id,
            "verified": self.verified,
            "balanced": self.balanced,
            "missing": self.found.missing,
            "extra": self.found.extra,
            "duplicate": self.found.duplicate,
            "samples": dict(self.found.samples),
            "changed_files": [changed.file for changed in self.changes],
            "first_changed": self.changes[0].to_json() if self.changes else None,
            "sealed": self.sealed.seal is not None,
            "signed_by": self.sealed.signed_by,
            "seal": _facts(self.sealed.seal),
            "reasons": self.reasons,
            "repeated_keys": dict(self.repeated_keys),
        }


def _facts(seal: Seal | None) -> dict[str, object] | None:
    if seal is None:
        return None
    return {"ordinal": seal.ordinal, "hash": seal.hash, "previous": seal.previous}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run folder to verify, and the folders of results it reused."""

    folder: Path
    name: str
    sealed: Sealed
    reused: Mapping[Target, Path] = field(default_factory=dict)
    exact: bool = False
    versions: Callable[[Target, StoredLedger], list[str]] = lambda *_: []
    """Compares what a target read with the registry, and returns what differs."""


def verify(case: Case, again: Opened, spark: Callable[[], SparkSession]) -> Verification:
    """Verify a run. Anything that could not be checked counts as a failure."""
    altered = case.sealed.changes
    reasons = [f"{one.file}: changed, missing or added since the run" for one in altered]
    found = Discrepancy()
    run = _opened(case, reasons)
    repeats: dict[str, int] = {}
    if run is not None:
        for target, place in run.places().items():
            shown = os.path.relpath(place, run.folder)
            differing = {one.file for one in altered if one.file.startswith(f"{shown}/")}
            # Do not compare keys with a ledger that was changed.
            whole = _check_ledger(target, place, reasons) and f"{shown}/{LEDGER}" not in differing
            if whole:
                reasons += case.versions(target, ledger_in(place))
            if whole and not differing:
                reasons += _recounted(spark, target, place)
            if whole and (differing or case.exact):
                found += _by_key(again(run), target, place, reasons)
            if whole and case.exact and not reasons:
                repeats |= _repeated(again(run)(target, place))
    balanced = found.empty and not reasons
    return Verification(
        run_id=run.run_id if run else case.name,
        balanced=balanced,
        found=found,
        sealed=case.sealed,
        reasons=[*reasons, *case.sealed.problems],
        repeated_keys=repeats,
    )


def _opened(case: Case, reasons: list[str]) -> Run | None:
    """Open the run; None if its manifest cannot say what the run made."""
    if any(one.file == MANIFEST for one in case.sealed.changes):
        reasons.append(f"{MANIFEST} was changed: nothing else was checked by key")
        return None
    try:
        run = Run.open(case.folder, case.reused)
        run.places()
    except (AttributeError, KeyError, OSError, RunDamaged, TypeError, ValueError):
        reasons.append(f"{MANIFEST} or {REPORT} cannot be read: nothing was checked by key")
        return None
    if run.report is None:
        reasons.append("the run did not finish: it has no final ledger")
    return run


def _check_ledger(target: Target, place: Path, reasons: list[str]) -> bool:
    """True if the target has a readable ledger."""
    try:
        reasons += _arithmetic(str(target), ledger_in(place))
    except NotFound:
        reasons.append(f"{target}: it has no ledger")
        return False
    except (OSError, ValueError):
        reasons.append(f"{target}: its {LEDGER} is not a valid ledger")
        return False
    return True


def _recounted(spark: Callable[[], SparkSession], target: Target, place: Path) -> list[str]:
    """Measure the files again: they may be unchanged and still have been wrong from the start."""
    ledger = ledger_in(place)
    if output_gone(place):  # removed when its version was purged
        return []
    try:
        kept = Kept(place, spark, limit=sys.maxsize)
        return [f"{target}: {difference}" for difference in recount(ledger, kept)]
    except (ArrowException, KeyError, OSError, PySparkException, ValueError) as error:
        return [f"{target}: its files could not be counted again: {error}"]


def _by_key(
    opened: Callable[[Target, Path], Again], target: Target, place: Path, reasons: list[str]
) -> Discrepancy:
    try:
        again = opened(target, place)
        found = _compare(again)
        reasons += _input_changed(again)
    except Exception as error:
        if not isinstance(error, TallymanError) and not of_spark(error):
            raise
        reasons.append(f"{target}: could not be checked key by key: {first_line(error)}")
        return Discrepancy()
    return found


def _repeated(again: Again) -> dict[str, int]:
    """Count repeated keys if the run did not, because it would have taken too long."""
    if again.ledger.inputs.duplicate_keys is not None:
        return {}
    found = repeated.count({source.name: source for source in again.accounted}, limit=0)
    return {str(again.target): sum(count or 0 for count in found.counts.values())}


def _arithmetic(asset: str, ledger: StoredLedger) -> list[str]:
    """Check that the ledger's numbers add up: a number changed by hand does not."""
    total, balanced = ledger.accounted.count, ledger.proof.balanced
    sums = total == ledger.total_accounted and total + ledger.unaccounted == ledger.records_in
    if not sums or not balanced:
        return [
            f"{asset}: {ledger.records_in:,} records in, {total:,} accounted for, "
            f"ledger says balanced: {balanced}"
        ]
    return []


def _compare(again: Again) -> Discrepancy:
    if not again.ledger.has_keys:
        return compare_by_digest(again)
    found = compare_keys(again.accounted, again.ledger, again.place)
    return found + compare_units(again.spark(), again.ledger, again.place)


def _input_changed(again: Again) -> list[str]:
    """Compare the inputs' hashes; an input without a hash in the ledger counts as changed."""
    names = [source.name for source in again.accounted]
    now = [source.files.content_hash for source in again.accounted]
    then = again.ledger.inputs
    if not changes(then.hashes_of(names), dict(zip(names, now, strict=True))):
        return []
    hashes = f"{'+'.join(then.hashes)} then, {'+'.join(now)} now"
    return [f"{again.target}: the input has changed since the run: {hashes}"]


def differing_versions(
    tx: Transaction, made: Materialization, ledger: StoredLedger
) -> Iterator[str]:
    """Yield a reason for each input of which the result, or its ledger, names something else than
    the version that its run had to read."""
    recorded: dict[str, list[UUID]] = {}
    datasets: dict[str, UUID] = {}
    for read in Reads(tx).inputs(made.id):
        if read.fragment_id is not None and read.dataset_id is not None:
            recorded.setdefault(read.name, []).append(read.fragment_id)
            datasets[read.name] = read.dataset_id
    stated = {version.input: version for version in ledger.versions}
    for name in dict.fromkeys([*stated, *recorded]):
        if name not in stated or name not in recorded:
            where = "the registry" if name in stated else "its ledger"
            yield f"{made.target}: {where} does not say which version of {name} it read"
            continue
        expected = list(_expected(tx, made, name, datasets[name]))
        if not any(_same(stated[name], recorded[name], one) for one in expected):
            yield f"{made.target}: it read {_extent(stated[name])}; {_extent(expected[0])} recorded"


def _expected(
    tx: Transaction, made: Materialization, name: str, dataset: UUID
) -> Iterator[InputVersion]:
    """Yield what its run had to read, and for a replay what the first run had to read: of records
    that it accounts for, that is what it reads."""
    partitions = {str(one["name"]): one["partition"] for one in made.metadata.get("inputs", ())}
    line = Replays(tx).line(made.id)
    for run in dict.fromkeys([made.run_id, *(link.run_id for link in line[:1])]):
        ordinal = Runs(tx).by_id(run).pins.get(dataset, 0)
        yield Reads(tx).expected(name, dataset, partitions.get(name), ordinal, run)


def _same(stated: InputVersion, recorded: list[UUID], expected: InputVersion) -> bool:
    fragments = sorted(expected.fragments)
    named = fragments == sorted(recorded) == sorted(stated.fragments)
    return named and (stated.rows, stated.dataset) == (expected.rows, expected.dataset)


def _extent(version: InputVersion) -> str:
    return f"{version.extent} of {version}"
