"""What a trace must not show, and the key its hashes are made with."""

from __future__ import annotations

import contextlib
import os
import secrets
from uuid import uuid4

from tallyman.engine.trace import Redaction
from tallyman.settings import Settings

KEY_FILE = "trace.key"


def redaction(settings: Settings) -> Redaction:
    if not settings.redacted:
        return Redaction()
    return Redaction(frozenset(settings.redacted), _key(settings))


def _key(settings: Settings) -> str:
    """The project's own, made once: equal values have equal hashes from run to run."""
    path = settings.state_folder / KEY_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{KEY_FILE}.{uuid4()}")
    if not path.exists():
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            # Whoever comes second keeps the key of the first.
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        finally:
            os.unlink(aside)
    return path.read_text().strip()
