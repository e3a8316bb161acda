"""One difference between a run's manifest and the present, with its message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tallyman.domain.history.manifest import BoundInput, CodeVersion
from tallyman.engine.files.run_folder import SEAL

ABSENT = "absent"
"""Shown for a setting or a file that only one side has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingChange:
    """One difference between a run's binding and the present."""

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
        advice="see also:  tallyman verify chain",
    )


def file_change(name: str, then: str | None, now: str | None) -> BindingChange:
    hashes = f"sha256 {then or ABSENT} then, {now or ABSENT} now"
    return BindingChange(
        kind="manifest",
        name=name,
        then=then,
        now=now,
        message=f"{name} was changed since it was sealed: {hashes}",
        advice="the run's own files were changed; list them:  tallyman verify",
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


def code_change(then: CodeVersion, now: CodeVersion) -> BindingChange | None:
    same_files = then.source_hash == now.source_hash
    files = f"source_hash {then.source_hash} then, {now.source_hash} now"
    if then.git_commit and now.git_commit and then.git_commit != now.git_commit:
        own = "are the same" if same_files else f"differ: {files}"
        return BindingChange(
            kind="code",
            name="git_commit",
            then=then.git_commit,
            now=now.git_commit,
            message=f"Code has changed: commit {then.git_commit} then, {now.git_commit} "
            f"now; the pipeline's own files {own}",
            advice=f"get the original code:  git checkout {then.git_commit}",
        )
    if same_files:
        return None
    return BindingChange(
        kind="code",
        name="source_hash",
        then=then.source_hash,
        now=now.source_hash,
        message=f"Code has changed: {files}{_uncommitted(then, now)}",
    )


def _uncommitted(then: CodeVersion, now: CodeVersion) -> str:
    if now.git_commit is None or then.git_commit != now.git_commit:
        return ""
    sides = [name for name, dirty in (("then", then.git_dirty), ("now", now.git_dirty)) if dirty]
    when = " and ".join(sides) or "that git does not see"
    return f" (commit {now.git_commit}, with uncommitted changes {when})"


def input_change(name: str, then: BoundInput | None, now: BoundInput | None) -> BindingChange:
    known = then or now
    where = (known and known.path) or f"v{known and known.version} of its dataset"
    missing = now is None or now.hash is None
    word = "Input is missing" if missing else "Input data has changed"
    hashes = f"{_shown_hash(then)} then, {_shown_hash(now)} now"
    sizes = f"{_size(then)} then; {_size(now)} now"
    return BindingChange(
        kind="input",
        name=name,
        then=then.to_json() if then else None,
        now=now.to_json() if now else None,
        message=f"{word}: {name} ({where}): {hashes} ({sizes})",
    )


def _shown_hash(given: BoundInput | None) -> str:
    return str(hash_of(given) or "no content")


def _size(given: BoundInput | None) -> str:
    files, size = (given.files, given.bytes) if given else (0, 0)
    return f"{files:,} file{'s' if files != 1 else ''}, {size:,} bytes"


def hash_of(given: BoundInput | None) -> str | None:
    return given.hash if given else None
