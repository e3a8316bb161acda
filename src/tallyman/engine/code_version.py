"""Which code made a run: the commit if there is one, and a hash of the pipeline's files anyway."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 10
"""A repository that does not answer in time is treated as none."""
SUFFIXES = (".py", ".yaml", ".yml", ".sql", ".json", ".csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeVersion:
    """Without git, or when git does not know the files, only `source_hash` is there."""

    source_hash: str
    git_commit: str | None = None
    git_branch: str | None = None
    git_dirty: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "git_commit": self.git_commit,
            "git_branch": self.git_branch,
            "git_dirty": self.git_dirty,
            "source_hash": self.source_hash,
        }


def code_version(folder: Path) -> CodeVersion:
    """Of the files of a pipeline. Changes elsewhere in the repository do not make it dirty."""
    source = source_hash(folder)
    if not _git(folder, "ls-files", "--", "."):
        return CodeVersion(source_hash=source)
    # One question, so that commit and changes are of one moment.
    asked = ("status", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignored", "--")
    told = _git(folder, *asked, ".").splitlines()
    head = dict(line[2:].split(" ", 1) for line in told if line.startswith("# branch."))
    changed = [line for line in told if not line.startswith("#") and not _made_by_python(line)]
    commit = head.get("branch.oid", "(initial)")
    return CodeVersion(
        source_hash=source,
        git_commit=None if commit == "(initial)" else commit,
        git_branch=head.get("branch.head"),
        git_dirty=bool(changed),
    )


def source_hash(folder: Path) -> str:
    """sha256 over the names and the bytes of the files that declare the pipeline."""
    whole = hashlib.sha256()
    found = (path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in found):
        content = path.read_bytes()
        whole.update(f"{name}\0{len(content)}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def _made_by_python(line: str) -> bool:
    return "__pycache__" in line or line.endswith(".pyc")


def _git(folder: Path, *words: str) -> str:
    """What it prints; nothing when there is no git, no repository, or no permission."""
    # Only read: no lock of the repository, no program that its configuration names.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
