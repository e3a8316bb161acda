"""Run facets of an OpenLineage event: what a run is bound to, its balance, and its failure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

from tallyman.control.openlineage.facets import PRODUCER, Facet, facet
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import PROOF, WEAKER_PROOF, Partition, by_fate
from tallyman.domain.account.redaction import NUMBERS_ONLY
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain, others, step_ids
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.history.manifest import BoundInput, Manifest
from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.partition import decode
from tallyman.engine.files.run_folder import LEDGER, MANIFEST
from tallyman.engine.spark.secrets import without_assigned

Facets = dict[str, Facet]
LETTERS = "errors"
MOST = 100
"""The most inputs in one event; the manifest lists all."""
_SPARK_CLASS = re.compile(r"\[([A-Z][A-Z_.]+)\]")
_EVIDENCE = re.compile(r"adjoint/[^/]+/(.+)\.parquet")


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# ---- binding ------------------------------------------------------------------------------------


def of_run(manifest: Manifest) -> Facets:
    window = manifest.window
    if window and window.start and window.end:
        nominal = _nominal(date.fromisoformat(window.start), date.fromisoformat(window.end))
    else:
        nominal = {"nominalStartTime": manifest.timestamp}
    return _bound(manifest, nominal, _inputs(manifest.inputs))


def of_asset(manifest: Manifest, result: AssetResult, reads: Collection[str]) -> Facets:
    """Build the facets of a target. `reads` are its inputs by their names in the manifest."""
    given = manifest.inputs
    own = {name: given[name] for name in reads if name in given}
    day = decode(result.partition) if result.partition else None
    one: dict[str, Any] = {
        "asset": result.name,
        "partition": result.partition,
        "attempt": result.attempt,
    }
    one |= _inputs(own)
    if isinstance(day, date):
        return _bound(manifest, _nominal(day, day + timedelta(days=1)), one)
    return _bound(manifest, {"nominalStartTime": manifest.timestamp}, one)


def _nominal(first: date, end: date) -> dict[str, str]:
    return {
        "nominalStartTime": f"{first.isoformat()}T00:00:00Z",
        "nominalEndTime": f"{end.isoformat()}T00:00:00Z",
    }


def _bound(manifest: Manifest, nominal: Mapping[str, str], more: Mapping[str, Any]) -> Facets:
    version = manifest.environment.get("spark_version")
    found: Facets = {
        "nominalTime": facet("NominalTimeRunFacet", **nominal),
        "tallyman_run": facet("TallymanRunFacet", **_binding(manifest), **more),
    }
    if version:
        adapter = PRODUCER.rpartition(":")[2]
        found["processing_engine"] = facet(
            "ProcessingEngineRunFacet",
            version=str(version),
            name="spark",
            openlineageAdapterVersion=adapter,
        )
    return found


def _binding(manifest: Manifest) -> dict[str, Any]:
    code = manifest.code
    return {
        "run_id": manifest.run_id,
        "folder_name": manifest.folder_name,
        "config_hash": manifest.config_hash,
        "code_version": code.git_commit or code.source_hash,
        "reproducibility_manifest": f"{manifest.folder}/{MANIFEST}",
        "git_branch": code.git_branch,
        "git_dirty": code.git_dirty,
        "source_hash": code.source_hash,
    }


def _inputs(given: Mapping[str, BoundInput]) -> dict[str, Any]:
    """Return the first inputs and their number: each partition may have files of its own."""
    first = dict(islice(given.items(), MOST))
    paths = dict.fromkeys(str(of.path or name) for name, of in first.items())
    return {
        "input_dataset": " + ".join(paths),
        "input_hashes": {name: of.hash for name, of in first.items() if of.hash},
        "inputs_total": len(given),
    }


# ---- its balance --------------------------------------------------------------------------------


def asset_ledger(ledger: StoredLedger | None, folder: str, result: AssetResult) -> Facets:
    found = _ledger([ledger] if ledger else [], f"{folder}/{LEDGER}", result.rejections)
    if result.sub_ledgers:
        made = [sub.to_json() for sub in result.sub_ledgers]
        found = {name: {**each, "sub_ledgers": made} for name, each in found.items()}
    return found


def run_ledger(manifest: Manifest, ledgers: Sequence[StoredLedger]) -> Facets:
    """Add up all ledgers; a record counts once in every asset that reads it."""
    return _ledger(ledgers, f"{manifest.folder}/{LEDGER}", None)


def _ledger(ledgers: Sequence[StoredLedger], place: str, rejections: int | None) -> Facets:
    if not ledgers:
        return {}
    found = facet(
        "TallymanLedgerFacet",
        records_in=sum(each.records_in for each in ledgers),
        fates=by_fate(part for each in ledgers for part in each.partitions),
        unaccounted=sum(each.unaccounted for each in ledgers),
        balanced=all(each.proof.balanced for each in ledgers),
        proof_method=PROOF if all(each.has_keys for each in ledgers) else WEAKER_PROOF,
        ledger_location=place,
        rejections=rejections,
    )
    return {"tallyman_ledger": found}


def step_ledgers(
    plan: Frame,
    ledger: StoredLedger | None,
    rejections: Sequence[Mapping[str, Any]],
    asset: str,
) -> Facets:
    """Return the ledgers by step id, in the order of the steps."""
    ids = step_ids(plan)
    records = _by_step(ledger.partitions if ledger else (), ids.values())
    made = [part for level in ledger.levels[1:] for part in level] if ledger else []
    rows = _by_step(made, ids.values())
    letters = _letters(rejections)
    none = {fate.value: 0 for fate in Fate if fate is not Fate.ERROR}
    found = {}
    for step, name in _steps(plan, ids):
        # Two expectations of one rule cannot be distinguished: the first gets all rejections.
        count = letters.pop(f"{asset}.{step.rejects_as(name)}", 0)
        found[name] = facet(
            "TallymanLedgerFacet",
            records_in=None,
            fates=none | records.get(name, {}),
            rejections=count,
            rows=rows.get(name),
            step=step.kind,
        )
    return found


def _steps(plan: Frame, ids: Mapping[Frame, str]) -> list[tuple[Step, str]]:
    found: list[tuple[Step, str]] = []
    for node in chain(plan):
        assert node.step is not None
        for other in others(node.step):
            found += _steps(other, ids)
        if node in ids:
            found.append((node.step, ids[node]))
    return found


def _by_step(partitions: Sequence[Partition], steps: Collection[str]) -> dict[str, dict[str, int]]:
    """Count fates by the step that gave them. Evidence of a step with fates at two levels has a
    number in its name."""
    known = set(steps)
    found: dict[str, dict[str, int]] = {}
    for part in partitions:
        place = _EVIDENCE.fullmatch(part.location)
        if place is None:
            continue
        name = place.group(1)
        own = name if name in known else re.sub(r"_\d+$", "", name)
        counts = found.setdefault(own, {})
        counts[part.fate.value] = counts.get(part.fate.value, 0) + part.digest.count
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
) -> Facet:
    """Count each rejected record once; `errors_by_type` counts every broken rule."""
    count = sum(result.fates.get(Fate.ERROR, 0) for result in results)
    total = sum(result.records_in for result in results)
    place = f"{folders[0]}/{LETTERS}" if len(folders) == 1 else os.path.commonpath(folders)
    return facet(
        "TallymanErrorsFacet",
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
            "ErrorMessageRunFacet", message=message, programmingLanguage="PYTHON"
        ),
        "tallyman_failure": facet(
            "TallymanFailureFacet",
            reason=str(known.get("reason") or known.get("code") or "error"),
            message=message,
            errorCount=int(known.get("error_count") or wrong),
            threshold=None if threshold is None else float(threshold),
        ),
    }


def message_of(error: Mapping[str, object], where: str) -> str:
    """Return message and hint of an error; if the message may contain values of rows, only its
    kind."""
    code, hint = str(error.get("code", "error")), str(error.get("hint") or "")
    message = str(error.get("message") or code)
    if code not in NUMBERS_ONLY:
        kind = _SPARK_CLASS.search(message)
        step = error.get("operation_order")
        at = "" if step is None else f" at step {step}"
        message = f"{where}: {code}{at}{f' [{kind.group(1)}]' if kind else ''}."
    return without_assigned(f"{message} {hint}".strip())
