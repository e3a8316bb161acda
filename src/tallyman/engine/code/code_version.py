"""The code version of a run: the git commit if there is one, and a hash of the files anyway."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tallyman.domain.history.manifest import CodeVersion
from tallyman.engine.code.helper_modules import IMPORTED, helper_modules

SECONDS = 10
"""The timeout for git; a repository that does not answer in time is treated as none."""
SUFFIXES = (".py", ".yaml", ".yml", ".sql", ".json", ".csv")
UNREADABLE = "unreadable"
"""The text hashed in place of an unreadable file's content."""


def code_version(folder: Path) -> CodeVersion:
    """Describe the files of a pipeline. Changes elsewhere in the repository do not make it
    dirty.
    """
    source = source_hash(folder)
    if not _git(folder, "ls-files", "--", "."):
        return CodeVersion(source_hash=source)
    # One call, so that commit and changes are from the same moment.
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
    """Hash names and bytes of the files that declare the pipeline. An unreadable file counts as
    such, so that the run does not fail because of a file it may not need.
    """
    whole = hashlib.sha256()
    imported = [(f"{IMPORTED}{name}".encode(), path) for name, path in helper_modules(folder)]
    for name, path in [*sorted(_sources(folder)), *imported]:
        whole.update(name + b"\0" + _content(path).encode() + b"\n")
    return f"sha256:{whole.hexdigest()}"


def _sources(folder: Path) -> Iterator[tuple[bytes, Path]]:
    """Yield names and paths; names are bytes, because on Linux a name may be no valid text."""
    closed: list[OSError] = []
    for place, _, names in os.walk(folder, onerror=closed.append):
        for path in (Path(place, name) for name in names):
            if path.suffix in SUFFIXES and _is_file(path):
                yield os.fsencode(path.relative_to(folder).as_posix()), path
    for place in (Path(error.filename) for error in closed if error.filename):
        yield os.fsencode(place.relative_to(folder).as_posix()), place


def _is_file(path: Path) -> bool:
    """True also for a file without permission to look; False for a dangling link, as editors
    make.
    """
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
    """Run git and return its output; None without git, repository, permission or answer."""
    # Only read: take no lock of the repository, and start no program from its configuration.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    # In a git hook or in CI, GIT_ variables may name another repository than this one.
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
