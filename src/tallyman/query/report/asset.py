"""Report of one asset of a run: partitions added up, and failed ones listed by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger_json import is_ledger
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.report import run_facts
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.run_folder import LEDGER
from tallyman.engine.files.vouched import Vouched
from tallyman.errors import NotFound
from tallyman.on_demand import OnDemand
from tallyman.query.report.flow import RecordFlow, flows

if TYPE_CHECKING:
    from tallyman.query.report import rules
else:
    rules = OnDemand("tallyman.query.report.rules")

EVIDENCE_SHOWN = ("errors", "adjoint/filtered_keys")
"""The parts of the evidence that a report shows."""
NOT_MADE = (Status.SKIPPED.value, Status.PENDING.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetReport:
    """The report of one asset. `targets` come from the run's report: one, or one per partition."""

    name: str
    targets: tuple[Mapping[str, Any], ...]
    totals: Mapping[str, Any]
    flows: tuple[RecordFlow, ...]
    rules: tuple[Mapping[str, Any], ...]
    filters: tuple[Mapping[str, Any], ...]
    proofs: tuple[Mapping[str, Any], ...]

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        return [one for one in self.targets if one.get("error")]

    @property
    def partitioned(self) -> bool:
        return any(one.get("partition") for one in self.targets)

    @property
    def rejected_made(self) -> list[tuple[RecordFlow, int]]:
        """List each flow with rejected children or groups, and their number."""
        counts = [
            (flow, sum(one.count for one in flow.shares if one.fate == Fate.ERROR))
            for flow in self.flows
            if flow.opened_by is not None
        ]
        return [(flow, count) for flow, count in counts if count]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Milliseconds up to each step and per phase, added up over partitions."""
        found: dict[tuple[str, str], int] = {}
        for lap in (lap for one in self.targets for lap in one.get("timings", ())):
            kind = "up_to_step" if "up_to_step" in lap else "phase"
            found[kind, str(lap[kind])] = found.get((kind, str(lap[kind])), 0) + int(lap["ms"])
        return [{"kind": kind, "name": name, "ms": ms} for (kind, name), ms in found.items()]

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The inputs by name, with files added up over partitions."""
        found: dict[str, dict[str, Any]] = {}
        for given in (given for one in self.targets for given in one.get("inputs", ())):
            known = found.setdefault(given["name"], {**given, "files": 0, "bytes": 0})
            known["files"] += given["files"]
            known["bytes"] += given["bytes"]
        return list(found.values())

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The measured columns of the inputs; of partitions only JSON has them."""
        measured: Mapping[str, Any] = self.targets[0].get("column_metrics", {})
        return [
            {"input": name, "column": column, **one}
            for name, columns in measured.items()
            if not self.partitioned
            for column, one in columns.items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.totals,
            "flows": [flow.to_json() for flow in self.flows],
            "rules": list(self.rules),
            "filters": list(self.filters),
            "proofs": list(self.proofs),
            "targets": list(self.targets),
        }


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a run's targets, and the recorded hashes of their files."""

    of: Mapping[Target, Path]
    vouched: Vouched

    def ledger(self, target: Target) -> tuple[Path, StoredLedger] | None:
        """Return the target's folder, after checking its evidence, and its ledger; None if there is
        no ledger."""
        place = self.of.get(target)
        found = self.vouched.readable(place / LEDGER) if place else None
        if place is None or not is_ledger(found):
            return None
        self.vouched.check(place, *EVIDENCE_SHOWN)
        return place, self.vouched.ledger(place)


def asset_report(targets: Sequence[Mapping[str, Any]], places: Places, hidden: bool) -> AssetReport:
    """Build the report from ledgers and dead letters; a skipped target is reported by the run that
    made it. If `hidden`, the report contains no keys and no rejected values."""
    name = str(targets[0]["name"])
    found: dict[Target, tuple[Path, StoredLedger]] = {}
    for one in targets:
        target = Target(name, one.get("partition"))
        if one["status"] not in NOT_MADE and (read := places.ledger(target)) is not None:
            found[target] = read
    listed = [
        _as_the_ledger_has_it(one, found.get(Target(name, one.get("partition")))) for one in targets
    ]
    ledgers = [ledger for _, ledger in found.values()]
    return AssetReport(
        name=name,
        targets=tuple(listed),
        totals=_totals(listed),
        flows=flows(ledgers, stopped=any(one.get("error") for one in listed)),
        rules=tuple(rules.rules([place for place, _ in found.values()], hidden)),
        filters=tuple(rules.filters(list(found.values()))),
        proofs=tuple(_proof(target, ledger, hidden) for target, (_, ledger) in found.items()),
    )


def _as_the_ledger_has_it(
    one: Mapping[str, Any], found: tuple[Path, StoredLedger] | None
) -> Mapping[str, Any]:
    """Take the counts of a failed target from its ledger: its result has none."""
    if found is None:
        return one
    _, ledger = found
    return {**one, "records_in": ledger.records_in, "unaccounted": ledger.unaccounted}


def _totals(targets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    statuses: dict[str, int] = {}
    for one in targets:
        statuses[one["status"]] = statuses.get(one["status"], 0) + 1
    return run_facts(targets) | {
        "statuses": statuses,
        "rejections": sum(one.get("rejections", 0) for one in targets),
        "duration_ms": sum(one.get("duration_ms", 0) for one in targets),
    }


def keys_uncounted(places: Mapping[Target, Path], most: int = 20) -> list[Target]:
    """List targets with too many records for the run to count repeated keys. Checks only the first
    few: a run may have thousands of ledgers."""
    found = []
    for target, place in list(places.items())[:most]:
        ledger = _ledger(place)
        if ledger and ledger.proof.balanced and ledger.inputs.duplicate_keys is None:
            found.append(target)
    return found


def _ledger(place: Path) -> StoredLedger | None:
    """Read the ledger; None if it is missing or damaged."""
    try:
        return ledger_in(place)
    except (NotFound, OSError, ValueError):
        return None


def _proof(target: Target, ledger: StoredLedger, hidden: bool) -> dict[str, Any]:
    proof, read = ledger.proof, ledger.inputs
    shown = {kind: keys[:5] for kind, keys in proof.found.samples.items() if not hidden}
    return {
        "target": str(target),
        "partition": target.partition,
        "balanced": proof.balanced,
        "method": proof.method,
        "records": read.records,
        "door_digest": str(read.digest),
        "fates_digest": str(ledger.accounted),
        "missing": proof.found.missing,
        "extra": proof.found.extra,
        "duplicate": proof.found.duplicate,
        "samples": shown,
        "files": len(ledger.files or {}),
        "null_keys": read.null_keys,
        "duplicate_keys": read.duplicate_keys,
        "blank_lines": read.blank_lines,
        "missing_columns": {name: dict(found) for name, found in read.missing_columns.items()},
        "references": [asdict(one) | {"text": str(one)} for one in ledger.references],
    }
