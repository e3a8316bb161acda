"""Which code made a run: the commit if there is one, and a hash of the pipeline's files anyway."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tallyman.domain.history.manifest import CodeVersion

SECONDS = 10
"""A repository that does not answer in time is treated as none."""
SUFFIXES = (".py", ".yaml", ".yml", ".sql", ".json", ".csv")
UNREADABLE = "unreadable"
"""Hashed in place of the content of a file that cannot be read."""


def code_version(folder: Path) -> CodeVersion:
    """Of the files of a pipeline. Changes elsewhere in the repository do not make it dirty."""
    source = source_hash(folder)
    if not _git(folder, "ls-files", "--", "."):
        return CodeVersion(source_hash=source)
    # One question, so that commit and changes are of one moment.
    asked = ("status", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignored", "--")
    answer = _git(folder, *asked, ".")
    if answer is None:  # no answer is not "no changes"
        return CodeVersion(source_hash=source)
    lines = answer.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    changed = [line for line in lines if not line.startswith("#") and not _made_by_python(line)]
    commit = head.get("branch.oid", "(initial)")
    return CodeVersion(
        source_hash=source,
        git_commit=None if commit == "(initial)" else commit,
        git_branch=head.get("branch.head"),
        git_dirty=bool(changed),
    )


def source_hash(folder: Path) -> str:
    """sha256 over the names and the bytes of the files that declare the pipeline. What cannot be
    read counts as such: the run does not fail by a file that it may not need."""
    whole = hashlib.sha256()
    for name, path in sorted(_sources(folder)):
        whole.update(name + b"\0" + _content(path).encode() + b"\n")
    return f"sha256:{whole.hexdigest()}"


def _sources(folder: Path) -> Iterator[tuple[bytes, Path]]:
    """Names as bytes: on Linux a name need not be a text."""
    closed: list[OSError] = []
    for place, _, names in os.walk(folder, onerror=closed.append):
        for path in (Path(place, name) for name in names):
            if path.suffix in SUFFIXES and _is_file(path):
                yield os.fsencode(path.relative_to(folder).as_posix()), path
    for place in (Path(error.filename) for error in closed if error.filename):
        yield os.fsencode(place.relative_to(folder).as_posix()), place


def _is_file(path: Path) -> bool:
    """Also one that may not be looked at; not a link to nowhere, as editors make them."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


def _content(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError:
        return UNREADABLE
    return f"{len(content)}\0{hashlib.sha256(content).hexdigest()}"


def _made_by_python(line: str) -> bool:
    return "__pycache__" in line or line.endswith(".pyc")


def _git(folder: Path, *words: str) -> str | None:
    """What it prints; None when there is no git, no repository, no permission, or no answer."""
    # Only read: no lock of the repository, no program that its configuration names.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    # In a hook of git, or in CI, its variables name another repository than the one around us.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
