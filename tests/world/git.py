"""Git in a project folder, without anybody's configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path

WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
