"""The inputs of a target, as facts for its report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from tallyman.control.bind.manifest import digest_of
from tallyman.control.bind.pinned_files import Pin
from tallyman.domain.pipeline.target import Reading, Target


def inputs_read(
    pins: Mapping[str, Pin],
    versions: Mapping[UUID, int],
    made: Iterable[Target],
    records: Mapping[str, int],
) -> list[dict[str, Any]]:
    """List files, bytes and records of each input, and the version of each dataset: None if this
    run makes it."""
    own = set(made)
    return [
        _input(name, pin, versions, own) | ({"rows": records[name]} if name in records else {})
        for name, pin in pins.items()
    ]


def _kind(reading: Reading) -> str:
    if reading.shared is not None:
        return "dataset"
    return "source" if reading.of_source else "table" if reading.of_table else "asset"


def _input(name: str, pin: Pin, versions: Mapping[UUID, int], own: set[Target]) -> dict[str, Any]:
    reading, files = pin.reading, pin.files
    facts: dict[str, Any] = {
        "name": name,
        "partition": reading.partition,
        "kind": _kind(reading),
        "files": len(files.files),
        "bytes": files.bytes,
    }
    if not pin.fragments:
        return facts | {"hash": files.content_hash}
    here = any(t.asset == name and reading.partition in (None, t.partition) for t in own)
    version = versions.get(pin.fragments[0].dataset_id)
    return facts | {
        "version": None if here and not reading.of_table else version,
        "hash": digest_of(pin.fragments),
    }
