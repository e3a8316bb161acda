"""The manifest: what a run is bound to. Written when a run starts; `verify` uses the same
functions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from tallyman.control.bind.pinned_files import Pin
from tallyman.control.pipeline.definitions import Definitions
from tallyman.domain.definition.canonical_json import canonical_hash
from tallyman.domain.history.manifest import (
    SOURCE,
    BoundInput,
    BoundTarget,
    CodeVersion,
    Manifest,
    ProcessingWindow,
)
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.partition import decode
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.target import PLACEHOLDER, Reading, Target, folder_of, readings
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.spark.environment import environment, without_secrets
from tallyman.errors import InputMissing, InputUnreadable

VOLATILE = "volatile"
"""The part of config.json that does not bind the run, because it does not affect the result."""


class BoundPins(Protocol):
    """The pinned inputs of a run, as far as its manifest names them."""

    @property
    def ordinals(self) -> Mapping[UUID, int] | None: ...

    def source(self, target: Target, reading: Reading) -> Pin: ...

    def fragments(self, reading: Reading) -> Sequence[Fragment]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Config, code and inputs of a run. Equal bindings give equal data."""

    config: Mapping[str, Any]
    code: CodeVersion
    inputs: Mapping[str, BoundInput]

    @property
    def config_hash(self) -> str:
        return canonical_hash(self.config)


def bind(
    definitions: Definitions, targets: Sequence[Target], run: RunRecord, pins: BoundPins
) -> Binding:
    """Compute the binding from the current state of config, code and inputs."""
    return Binding(
        config=config_of(definitions, targets, run.params.options),
        code=definitions.code(),
        inputs=inputs_of(definitions.pipeline, targets, pins),
    )


# ---- config -----------------------------------------------------------------------------------


def config_of(
    definitions: Definitions, targets: Iterable[Target], options: Options
) -> dict[str, Any]:
    """Collect the settings that decide the result, besides code and inputs: no names, times or
    paths."""
    settings, chosen = definitions.settings, list(targets)
    assets = {}
    for name in sorted({target.asset for target in chosen}):
        asset = definitions.pipeline.assets[name]
        assets[name] = {
            "evidence": definitions.evidence(asset).value,
            "thresholds": definitions.thresholds(asset).to_json(),
        }
    return {
        "project": settings.name,
        "assets": assets,
        "targets": sorted(str(target) for target in chosen),
        "publish_good_partitions": options.good_partitions,
        "redact": sorted(settings.redacted),
        "replay_of": options.replay_of,
        "spark": without_secrets(settings.spark),
    }


def config_file(config: Mapping[str, Any], run: RunRecord, master: str | None) -> dict[str, Any]:
    """Build config.json: the binding settings, and the options the run was started with."""
    options = run.params.options
    asked = {
        "selection": list(options.selection),
        "force": sorted(options.force),
        "jobs": options.jobs,
        "go_on": options.go_on,
        "plan": options.plan.to_json() if options.plan else None,
        "evidence": options.evidence,
        "thresholds": options.thresholds.to_json() if options.thresholds else None,
    }
    volatile = asked | {"master": master}
    return {**config, VOLATILE: without_secrets_in(volatile)}


def without_secrets_in(volatile: Mapping[str, Any]) -> dict[str, Any]:
    master = volatile.get("master")
    shown = without_secrets({"master": master}) if master else {}
    return {**volatile, **shown}


# ---- inputs -----------------------------------------------------------------------------------


def inputs_of(
    pipeline: Pipeline, targets: Sequence[Target], pins: BoundPins
) -> dict[str, BoundInput]:
    """List what the targets read but do not make themselves, with its hash and, for a dataset, its
    version."""
    made = set(targets)
    found: dict[str, BoundInput] = {}
    for target in targets:
        for reading in readings(pipeline, target):
            name = label(reading)
            if name in found or Target(reading.name, reading.partition) in made:
                continue
            if reading.of_source:
                found[name] = _source(pipeline, pins, target, reading)
            elif fragments := pins.fragments(reading):
                found[name] = _dataset(pins, reading, fragments)
    return found


def label(reading: Reading) -> str:
    """Return the name of an input in a manifest."""
    return f"{reading.name}[{reading.partition}]" if reading.partition else reading.name


def _source(pipeline: Pipeline, pins: BoundPins, target: Target, reading: Reading) -> BoundInput:
    declared = pipeline.sources[reading.name].path
    partition = reading.partition if PLACEHOLDER in declared else None
    found = BoundInput(kind=SOURCE, path=declared, partition=partition)
    try:
        files = pins.source(target, reading).files
        return replace(found, files=len(files.files), bytes=files.bytes, hash=files.content_hash)
    except (InputMissing, InputUnreadable, OSError) as error:
        # Record the problem here; the target that needs this input fails with the full error.
        return replace(found, problem=str(error))


def _dataset(pins: BoundPins, reading: Reading, fragments: Sequence[Fragment]) -> BoundInput:
    dataset = fragments[0].dataset_id
    return BoundInput(
        kind=reading.kind,
        path=reading.shared.dataset if reading.shared else None,
        dataset_id=str(dataset),
        version=(pins.ordinals or {}).get(dataset),
        partition=reading.partition,
        files=sum(len(fragment.files) for fragment in fragments),
        bytes=sum(fragment.bytes for fragment in fragments),
        hash=digest_of(fragments),
    )


def digest_of(fragments: Iterable[Fragment]) -> str:
    """Compute a digest of the rows from the fragments' stored digests, regardless of their
    files."""
    listed = sorted(f"{fragment.partition or ''}\0{fragment.digest}" for fragment in fragments)
    return f"sha256:{hashlib.sha256(chr(10).join(listed).encode()).hexdigest()}"


# ---- the file ---------------------------------------------------------------------------------


def manifest_of(
    identity: RunIdentity,
    run: RunRecord,
    definitions: Definitions,
    targets: Sequence[Target],
    binding: Binding,
) -> dict[str, Any]:
    settings, pipeline = definitions.settings, definitions.pipeline
    return Manifest(
        run_id=identity.run_id,
        project=settings.name,
        actor=run.actor,
        timestamp=identity.timestamp,
        folder_name=identity.folder_name,
        config_hash=binding.config_hash,
        code=binding.code,
        inputs=binding.inputs,
        pipeline_version=run.params.pipeline_version,
        targets=tuple(
            BoundTarget(
                target=target,
                folder=folder_of(pipeline.assets, target),
                definition_hash=definitions.hash(target.asset),
            )
            for target in targets
        ),
        window=processing_window(targets),
        environment=environment(settings.master, settings.spark),
        locations=_locations(run, pipeline, targets, settings.warehouse),
        openlineage_run_id=identity.openlineage_run_id,
    ).to_json()


def processing_window(targets: Iterable[Target]) -> ProcessingWindow:
    """Return the first day, the end of the last day, and the number of partitions."""
    keys = sorted({target.partition for target in targets if target.partition})
    days = [decode(key) for key in keys if key.startswith("d:")]
    if not days or len(days) != len(keys):
        return ProcessingWindow(partitions=len(keys))
    first, last = days[0], days[-1]
    assert not isinstance(first, str)
    assert not isinstance(last, str)
    end = last + timedelta(days=1)
    return ProcessingWindow(start=str(first), end=str(end), partitions=len(keys))


def _locations(
    run: RunRecord, pipeline: Pipeline, targets: Iterable[Target], warehouse: str
) -> dict[str, Any]:
    """List the locations relative to the project folder, so that the project can be moved."""
    places = {target: f"{run.folder}/{folder_of(pipeline.assets, target)}" for target in targets}
    return {
        "run_dir": run.folder,
        "lineage_dir": f"{run.folder}/lineage",
        "warehouse_dir": str(Path(warehouse)),
        "targets": {
            str(target): {
                "accounting_dir": f"{place}/output",
                "errors_dir": f"{place}/errors",
                "adjoint_dir": f"{place}/adjoint",
                "trace_dir": f"{place}/trace",
            }
            for target, place in places.items()
        },
    }


def inputs_read(pins: Mapping[str, Pin], records: Mapping[str, int]) -> list[dict[str, Any]]:
    """List files, bytes and records of each input, and the version of each dataset: None if this
    run makes it."""
    return [
        _input(name, pin) | ({"rows": records[name]} if name in records else {})
        for name, pin in pins.items()
    ]


def _input(name: str, pin: Pin) -> dict[str, Any]:
    reading, files = pin.reading, pin.files
    facts: dict[str, Any] = {
        "name": name,
        "partition": reading.partition,
        "kind": reading.kind,
        "files": len(files.files),
        "bytes": files.bytes,
    }
    if pin.version is None:
        return facts | {"hash": files.content_hash}
    return facts | {"version": pin.version.version, "hash": digest_of(pin.fragments)}
