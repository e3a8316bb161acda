"""The report of a run, from its folder and from the registry."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.domain.account.redaction import without_values
from tallyman.domain.history.manifest import VERSION, Manifest
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.report import run_facts, target_facts, versions_of
from tallyman.domain.history.run import RunResult
from tallyman.domain.history.seal import Seal
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.run_folder import CONFIG, REPORT, SEAL
from tallyman.engine.files.vouched import Vouched
from tallyman.query.report.asset import AssetReport, Places, asset_report

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """The registry's facts about a run; a run copied from elsewhere has none."""

    record: RunRecord
    result: RunResult
    rows: Sequence[Materialization]
    seal: str | None
    """The newest seal, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    head: Mapping[str, Any]
    totals: Mapping[str, Any]
    assets: tuple[AssetReport, ...]
    versions: tuple[Mapping[str, Any], ...]
    seal: Mapping[str, Any] | None
    binding: Mapping[str, Any]
    lineage: Mapping[str, Any]
    timings: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head,
            **self.totals,
            "versions": list(self.versions),
            "seal": self.seal,
            "binding": self.binding,
            "lineage": self.lineage,
            "timings": list(self.timings),
            "assets": [asset.to_json() for asset in self.assets],
        }


def report(run: Run | None, known: KnownRun | None, redacted: Collection[str] = ()) -> Report:
    """Build the report from the folder, the registry, or both. `redacted` lists the columns
    redacted today.

    A column may have been renamed or computed from a redacted one, and the plan that would show
    this is not available here. So if anything is or was redacted, no value of a record is shown.
    """
    facts = known_facts(run, known)
    manifest = run.manifest if run else None
    hidden = bool(redacted or _config(run).get("redact"))
    facts = _without_values(facts) if hidden else facts
    read = Places(run.places(), run.vouched) if run else Places({}, Vouched(Path()))
    names = list(dict.fromkeys(one["name"] for one in facts["assets"]))
    assets = tuple(
        asset_report([o for o in facts["assets"] if o["name"] == name], read, hidden)
        for name in names
    )
    inputs = manifest.inputs if manifest else {}
    binding = {**bound_to(run), "inputs": {name: one.to_json() for name, one in inputs.items()}}
    return Report(
        head=_head(run, known, facts),
        totals=run_facts([one for asset in assets for one in asset.targets]),
        assets=assets,
        versions=tuple(facts["versions"]),
        seal=seal_facts(run, known),
        binding={**binding, "environment": _environment(manifest)},
        lineage=lineage_ids(run, known),
        timings=tuple(facts["timings"]),
    )


def known_facts(run: Run | None, known: KnownRun | None) -> dict[str, Any]:
    """Return the run's own report, updated with the registry's current facts."""
    written = dict(run.report) if run and run.report else {}
    found: dict[str, Any] = {name: [] for name in ("assets", "versions", "timings")} | written
    if known is None:
        if not written and run is not None:
            found["assets"] = [_unknown(one.target) for one in run.manifest.targets]
        return found
    made = zip(known.result.assets, known.rows, strict=True)
    found["assets"] = [target_facts(result, row) for result, row in made]
    if known.result.commit is not None:
        found["versions"] = versions_of(known.result.commit)
    return found


def _without_values(facts: Mapping[str, Any]) -> dict[str, Any]:
    assets = [
        {**one, "error": without_values(one["error"])} if one.get("error") else one
        for one in map(_without_bounds, facts["assets"])
    ]
    error = facts.get("error")
    return {**facts, "assets": assets, "error": without_values(error) if error else None}


def _without_bounds(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove the least and greatest values of measured columns; the counts stay."""
    if "column_metrics" not in one:
        return one
    counts = {
        name: {column: each | {"min": None, "max": None} for column, each in columns.items()}
        for name, columns in one["column_metrics"].items()
    }
    return {**one, "column_metrics": counts}


def _unknown(target: Target) -> dict[str, Any]:
    return {"name": target.asset, "partition": target.partition, "status": UNKNOWN}


def _head(run: Run | None, known: KnownRun | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    manifest = run.manifest if run else None
    record = known.record if known else None
    ended = record.completed_at if record else None
    started = (
        f"{record.started_at:%Y-%m-%dT%H:%M:%SZ}" if record else manifest and manifest.timestamp
    )
    return {
        "run_id": record.name if record else run.run_id if run else None,
        "project": record.owner.project if record else manifest and manifest.project,
        "status": record.status.value if record else facts.get("status", UNKNOWN),
        "started_at": started,
        "finished_at": facts.get("finished_at") or (ended and f"{ended:%Y-%m-%dT%H:%M:%SZ}"),
        "duration_ms": facts.get("duration_ms") or _took(record),
        "actor": record.actor if record else manifest and manifest.actor,
        "executor_node": record.executor_node if record else None,
        "folder": record.folder if record else run.folder.name if run else None,
        "replay_of": record.params.options.replay_of if record else _config(run).get("replay_of"),
        "commit": facts.get("commit"),
        "error": facts.get("error"),
        "window": manifest.window.to_json() if manifest else None,
        "registered": record is not None,
        "has_folder": run is not None,
    }


def _took(record: RunRecord | None) -> int | None:
    if record is None or record.completed_at is None:
        return None
    return int((record.completed_at - record.started_at).total_seconds() * 1000)


# ---- proof ------------------------------------------------------------------------------------


def seal_facts(run: Run | None, known: KnownRun | None) -> dict[str, Any] | None:
    """Return the seal's facts; None if the run is not sealed: it is running, or its process was
    killed."""
    text = known.seal if known and known.seal else None
    found = run.vouched.content(run.folder / SEAL) if run and text is None else text
    if found is None:
        return None
    try:
        seal = Seal.of_text(found)
    except (KeyError, TypeError, ValueError):
        return None  # `verify` reports what is wrong with it
    return {
        "ordinal": seal.ordinal,
        "hash": seal.hash,
        "previous": seal.previous,
        "sealed_at": seal.sealed_at,
        "files": len(seal.files),
        "manifest": seal.files.get("manifest.json"),
        "report": seal.files.get(REPORT),
        "signature": seal.signature.to_json() if seal.signature else None,
    }


def bound_to(run: Run | None) -> dict[str, Any]:
    """Return the hashes in the manifest; None if there is no manifest."""
    manifest = run.manifest if run else None
    return {
        "manifest_version": VERSION if manifest else None,
        "config_hash": manifest and manifest.config_hash,
        "code_version": manifest.code.to_json() if manifest else {},
        "pipeline_version": manifest and manifest.pipeline_version,
        "definitions": manifest.definitions if manifest else {},
    }


def lineage_ids(run: Run | None, known: KnownRun | None) -> dict[str, Any]:
    """Return the OpenLineage id of the run, and of each target whose events were written."""
    own = str(known.record.id) if known else run.manifest.openlineage_run_id if run else None
    events = run.vouched.content(run.folder / "lineage" / "job_events.jsonl") if run else None
    started = _started(events or b"")
    return {"openlineage_run_id": own, "assets": {n: i for n, i in started.items() if i != own}}


def _started(events: bytes) -> dict[str, str]:
    """Return the runs that have a START event: the run itself and each target. Steps have only an
    end."""
    found: dict[str, str] = {}
    for line in events.splitlines():
        try:
            event = json.loads(line)
            if event["eventType"] == "START":
                partition = event["run"]["facets"].get("tallyman_run", {}).get("partition")
                name = event["job"]["name"]
                found[f"{name}[{partition}]" if partition else name] = event["run"]["runId"]
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # `verify` reports that the file was changed
    return found


def _environment(manifest: Manifest | None) -> dict[str, Any]:
    kept = manifest.environment if manifest else {}
    return {name: value for name, value in kept.items() if not isinstance(value, dict)}


def _config(run: Run | None) -> dict[str, Any]:
    """Read the config. Raises if it was changed, because it decides what must be hidden."""
    return (run.vouched.readable(run.folder / CONFIG) if run else None) or {}
