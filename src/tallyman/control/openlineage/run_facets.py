"""The run facets of an OpenLineage event: what a run is bound to, its balance, and its failure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, Protocol

from openlineage.client.facet_v2 import (
    RunFacet,
    error_message_run,
    nominal_time_run,
    processing_engine_run,
)

from tallyman.control.openlineage.facets import (
    PRODUCER,
    TallymanErrorsFacet,
    TallymanFailureFacet,
    TallymanLedgerFacet,
    TallymanRunFacet,
    facet,
)
from tallyman.control.openlineage.source_code import message_of
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import PARTITION_TYPE, PROOF, WEAKER_PROOF
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.partition import decode
from tallyman.domain.definition.plan import chain, others, step_ids
from tallyman.domain.definition.step import Expect, Join, Step
from tallyman.domain.history.run import AssetResult
from tallyman.engine.files.run_folder import LEDGER, MANIFEST

Facets = dict[str, RunFacet]
LETTERS = "errors"
MOST = 100
"""Inputs that one event lists; the manifest has all."""
_FATES = {PARTITION_TYPE.get(fate, fate.value): fate for fate in Fate}
_EVIDENCE = re.compile(r"adjoint/[^/]+/(.+)\.parquet")


class FacetCounts(Protocol):
    """A target with its ledger."""

    @property
    def ledger(self) -> Mapping[str, Any] | None: ...


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# ---- what it is bound to ------------------------------------------------------------------------


def of_run(manifest: Mapping[str, Any]) -> Facets:
    window = manifest.get("processing_window") or {}
    first, end = window.get("start"), window.get("end")
    if first and end:
        nominal = _nominal(date.fromisoformat(first), date.fromisoformat(end))
    else:
        nominal = {"nominalStartTime": manifest["timestamp"]}
    return _bound(manifest, nominal, _inputs(_given(manifest)))


def of_asset(
    manifest: Mapping[str, Any], result: AssetResult, reads: Collection[str] = ()
) -> Facets:
    """`reads` are the inputs of this target, as the manifest calls them; others are left out."""
    given = _given(manifest)
    own = {name: given[name] for name in reads if name in given}
    day = decode(result.partition) if result.partition else None
    one: dict[str, Any] = {
        "asset": result.name,
        "partition": result.partition,
        "attempt": result.attempt,
    }
    one |= _inputs(own)
    if isinstance(day, date) and not isinstance(day, datetime):
        return _bound(manifest, _nominal(day, day + timedelta(days=1)), one)
    return _bound(manifest, {"nominalStartTime": manifest["timestamp"]}, one)


def _nominal(first: date, end: date) -> dict[str, str]:
    return {
        "nominalStartTime": f"{first.isoformat()}T00:00:00Z",
        "nominalEndTime": f"{end.isoformat()}T00:00:00Z",
    }


def _bound(
    manifest: Mapping[str, Any], nominal: Mapping[str, str], more: Mapping[str, Any]
) -> Facets:
    engine = processing_engine_run.ProcessingEngineRunFacet
    version = manifest.get("execution_metadata", {}).get("spark_version")
    found: Facets = {
        "nominalTime": facet(nominal_time_run.NominalTimeRunFacet, **nominal),
        "tallyman_run": facet(TallymanRunFacet, **_binding(manifest), **more),
    }
    if version:
        adapter = PRODUCER.rpartition(":")[2]
        found["processing_engine"] = facet(
            engine, name="spark", version=str(version), openlineageAdapterVersion=adapter
        )
    return found


def _binding(manifest: Mapping[str, Any]) -> dict[str, Any]:
    binding = manifest.get("cryptographic_binding") or {}
    code = binding.get("code_version") or {}
    return {
        "run_id": manifest["run_id"],
        "folder_name": manifest["folder_name"],
        "config_hash": binding.get("config_hash"),
        "code_version": code.get("git_commit") or code.get("source_hash"),
        "reproducibility_manifest": f"{folder_of_run(manifest)}/{MANIFEST}",
        "git_branch": code.get("git_branch"),
        "git_dirty": code.get("git_dirty"),
        "source_hash": code.get("source_hash"),
    }


def _given(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    binding = manifest.get("cryptographic_binding") or {}
    return binding.get("input_hashes") or {}


def _inputs(given: Mapping[str, Any]) -> dict[str, Any]:
    """The first of them, and how many there are: each partition may have files of its own."""
    first = dict(islice(given.items(), MOST))
    paths = dict.fromkeys(str(of.get("path") or name) for name, of in first.items())
    return {
        "input_dataset": " + ".join(paths),
        "input_hashes": {name: of["hash"] for name, of in first.items() if of.get("hash")},
        "inputs_total": len(given),
    }


def folder_of_run(manifest: Mapping[str, Any]) -> str:
    """Below the project."""
    known = (manifest.get("output_locations") or {}).get("run_dir")
    return str(known or f"runs/{manifest['folder_name']}")


# ---- its balance --------------------------------------------------------------------------------


def asset_ledger(ledger: Mapping[str, Any] | None, folder: str, result: AssetResult) -> Facets:
    found = _ledger([ledger] if ledger else [], f"{folder}/{LEDGER}", result.rejections)
    for each in found.values():
        made = [sub.to_json() for sub in result.sub_ledgers]
        assert isinstance(each, TallymanLedgerFacet)
        each.sub_ledgers = made or None
    return found


def run_ledger(manifest: Mapping[str, Any], assets: Sequence[FacetCounts]) -> Facets:
    """Of all it made; each record counts once in every asset that reads it."""
    ledgers = [asset.ledger for asset in assets if asset.ledger]
    return _ledger(ledgers, f"{folder_of_run(manifest)}/{LEDGER}", None)


def _ledger(ledgers: Sequence[Mapping[str, Any]], place: str, rejections: int | None) -> Facets:
    if not ledgers:
        return {}
    counts = dict.fromkeys((fate.value for fate in Fate), 0)
    for ledger in ledgers:
        for one in ledger["output_accounting"]["partitions"]:
            counts[_FATES[one["partition_type"]]] += one["record_count"]
    proofs = {ledger["verification"]["proof_method"] for ledger in ledgers}
    found = facet(
        TallymanLedgerFacet,
        records_in=sum(each["input_accounting"]["total_records"] for each in ledgers),
        fates=counts,
        unaccounted=sum(each["output_accounting"]["unaccounted"] for each in ledgers),
        balanced=all(each["verification"]["accounting_balanced"] for each in ledgers),
        proof_method=PROOF if proofs == {PROOF} else WEAKER_PROOF,
        ledger_location=place,
        rejections=rejections,
    )
    return {"tallyman_ledger": found}


def step_ledgers(
    plan: Frame,
    ledger: Mapping[str, Any] | None,
    rejections: Sequence[Mapping[str, Any]],
    asset: str,
) -> dict[str, TallymanLedgerFacet]:
    """By the ids of the steps, in their order."""
    ids = step_ids(plan)
    records = _by_step(ledger["output_accounting"]["partitions"] if ledger else (), ids.values())
    made = [one for sub in (ledger or {}).get("sub_ledgers", ()) for one in sub["partitions"]]
    rows = _by_step(made, ids.values())
    letters = _letters(rejections)
    none = {fate.value: 0 for fate in Fate if fate is not Fate.ERROR}
    found = {}
    for step, name in _steps(plan, ids):
        # Two expectations of one rule cannot be distinguished: the first one has it all.
        count = letters.pop(f"{asset}.{_rule(step, name)}", 0)
        found[name] = facet(
            TallymanLedgerFacet,
            records_in=None,
            fates=none | records.get(name, {}),
            rejections=count,
            rows=rows.get(name),
            step=step.kind,
        )
    return found


def _steps(plan: Frame, ids: Mapping[int, str]) -> list[tuple[Step, str]]:
    found: list[tuple[Step, str]] = []
    for node in chain(plan):
        assert node.step is not None
        for other in others(node.step):
            found += _steps(other, ids)
        if id(node) in ids:
            found.append((node.step, ids[id(node)]))
    return found


def _rule(step: Step, name: str) -> str | None:
    match step:
        case Expect():
            return step.rule
        case Join():
            return name
    return None


def _by_step(
    partitions: Sequence[Mapping[str, Any]], steps: Collection[str]
) -> dict[str, dict[str, int]]:
    """Fates by the step that gave them. A step that gave one at two levels is numbered there."""
    known = set(steps)
    found: dict[str, dict[str, int]] = {}
    for one in partitions:
        place = _EVIDENCE.fullmatch(one["adjoint_location"])
        if place is None:
            continue
        name = place.group(1)
        own = name if name in known else re.sub(r"_\d+$", "", name)
        counts = found.setdefault(own, {})
        fate = _FATES[one["partition_type"]].value
        counts[fate] = counts.get(fate, 0) + one["record_count"]
    return found


def _letters(rejections: Sequence[Mapping[str, Any]], by: str = "morphism_path") -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rejections:
        found[row[by]] = found.get(row[by], 0) + int(row["count"])
    return found


def errors(
    results: Sequence[AssetResult],
    rejections: Sequence[Mapping[str, Any]],
    folders: Sequence[str],
) -> TallymanErrorsFacet:
    """Records once, whatever number of rules they broke; by type each broken rule."""
    count = sum(result.fates.get(Fate.ERROR, 0) for result in results)
    total = sum(result.records_in for result in results)
    place = f"{folders[0]}/{LETTERS}" if len(folders) == 1 else os.path.commonpath(folders)
    return facet(
        TallymanErrorsFacet,
        error_count=count,
        error_rate=count / total if total else 0.0,
        errors_by_type=_letters(rejections, "error_type"),
        dlq_location=place,
    )


# ---- its failure --------------------------------------------------------------------------------


def failure(error: Mapping[str, Any] | None, where: str) -> Facets:
    known = error or {"code": "interrupted", "message": f"{where} was not finished."}
    message = message_of(known, where)
    wrong = sum(int(known.get(name) or 0) for name in ("missing", "extra", "duplicate"))
    threshold = known.get("threshold")
    return {
        "errorMessage": facet(
            error_message_run.ErrorMessageRunFacet, message=message, programmingLanguage="PYTHON"
        ),
        "tallyman_failure": facet(
            TallymanFailureFacet,
            reason=str(known.get("reason") or known.get("code") or "error"),
            message=message,
            errorCount=int(known.get("error_count") or wrong),
            threshold=None if threshold is None else float(threshold),
        ),
    }
