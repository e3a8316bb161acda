"""The inputs of a target, as facts for its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.control.bind.manifest import digest_of
from tallyman.control.bind.pinned_files import Pin
from tallyman.domain.pipeline.target import Reading


def inputs_read(pins: Mapping[str, Pin], records: Mapping[str, int]) -> list[dict[str, Any]]:
    """List files, bytes and records of each input, and the version of each dataset: None if this
    run makes it."""
    return [
        _input(name, pin) | ({"rows": records[name]} if name in records else {})
        for name, pin in pins.items()
    ]


def _kind(reading: Reading) -> str:
    if reading.shared is not None:
        return "dataset"
    return "source" if reading.of_source else "table" if reading.of_table else "asset"


def _input(name: str, pin: Pin) -> dict[str, Any]:
    reading, files = pin.reading, pin.files
    facts: dict[str, Any] = {
        "name": name,
        "partition": reading.partition,
        "kind": _kind(reading),
        "files": len(files.files),
        "bytes": files.bytes,
    }
    if pin.version is None:
        return facts | {"hash": files.content_hash}
    return facts | {"version": pin.version.version, "hash": digest_of(pin.fragments)}
