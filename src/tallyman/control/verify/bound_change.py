"""One difference between a run's manifest and the present, with its message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyman.engine.files.run_folder import SEAL

ABSENT = "absent"
"""Shown for a setting or a file that one side does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingChange:
    """One thing that is not as it was."""

    kind: str
    name: str
    then: Any
    now: Any
    message: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "then": self.then,
            "now": self.now,
            "message": self.message,
        }


def other_seal(then: str, now: str) -> BindingChange:
    return BindingChange(
        kind="manifest",
        name=SEAL,
        then=then,
        now=now,
        message=f"the registry's seal of the run was changed: {then} then, {now} now",
        advice="look closer:  tallyman verify chain",
    )


def file_change(name: str, then: str | None, now: str | None) -> BindingChange:
    hashes = f"sha256 {then or ABSENT} then, {now or ABSENT} now"
    return BindingChange(
        kind="manifest",
        name=name,
        then=then,
        now=now,
        message=f"{name} was changed since it was sealed: {hashes}",
        advice="the run's own files were changed:  tallyman verify says which",
    )


def setting_change(path: str, then: Any, now: Any) -> BindingChange:
    shown = [one if one == ABSENT else json.dumps(one, ensure_ascii=False) for one in (then, now)]
    return BindingChange(
        kind="config",
        name=path,
        then=None if then == ABSENT else then,
        now=None if now == ABSENT else now,
        message=f"Config has changed: {path}: {shown[0]} then, {shown[1]} now",
    )


def input_change(
    name: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> BindingChange:
    known = then or now or {}
    where = known.get("path") or f"v{known.get('version')} of its dataset"
    missing = now is None or now["hash"] is None
    word = "Input is missing" if missing else "Input data has changed"
    hashes = f"{_shown_hash(then)} then, {_shown_hash(now)} now"
    sizes = f"{_size(then)} then; {_size(now)} now"
    return BindingChange(
        kind="input",
        name=name,
        then=dict(then) if then else None,
        now=dict(now) if now else None,
        message=f"{word}: {name} ({where}): {hashes} ({sizes})",
    )


def _shown_hash(given: Mapping[str, Any] | None) -> str:
    return str(hash_of(given) or "nothing there")


def _size(given: Mapping[str, Any] | None) -> str:
    known = given or {}
    files, size = known.get("files", 0), known.get("bytes", 0)
    return f"{files:,} file{'s' if files != 1 else ''}, {size:,} bytes"


def hash_of(given: Mapping[str, Any] | None) -> Any:
    return given and given["hash"]
