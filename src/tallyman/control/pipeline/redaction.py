"""Redaction: the columns a run must not show, and the key for their hashes."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Collection, Iterable, Mapping
from uuid import uuid4

from tallyman.domain.account.redaction import covers
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.columns.tainted import tainted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files import durable
from tallyman.errors import Problem
from tallyman.settings import Settings
from tallyman.state_folder import ready

KEY_FILE = "trace.key"


def redaction(settings: Settings, plans: Iterable[Frame]) -> Redaction:
    """Find the redacted columns of these plans, including columns made from a redacted one."""
    if not settings.redacted:
        return Redaction()
    return Redaction(hidden_columns(plans, settings.redacted), _key(settings))


def redaction_then(settings: Settings, ledger: StoredLedger) -> Redaction:
    """Return the redaction of the run that wrote the ledger."""
    hidden = frozenset(ledger.redacted)
    return Redaction(hidden, known_key(settings)) if hidden else Redaction()


def known_key(settings: Settings) -> str:
    """Return the project's key, or an empty string."""
    path = settings.state_folder / KEY_FILE
    return path.read_text().strip() if path.exists() else ""


def hidden_columns(plans: Iterable[Frame], redacted: Collection[str]) -> frozenset[str]:
    """Collect the redacted columns and all columns that any asset makes from them, repeatedly: one
    asset may read another's result."""
    found, listed = frozenset(name.lower() for name in redacted), list(plans)
    size = -1
    while found and size != len(found):
        size = len(found)
        for plan in listed:
            found |= tainted(plan, found)
    return found


def shown_partitions(
    pipeline: Pipeline, plans: Mapping[str, Frame], redacted: Collection[str]
) -> list[Problem]:
    """Find partitions by a redacted column: folders, messages and events name a partition by its
    value."""
    hidden = hidden_columns(plans.values(), redacted)
    declared = {name: pipeline.assets[name].partitioned_by for name in plans}
    return [
        Problem(
            f"asset {name}",
            f"it is partitioned by {by.column!r}, which is redacted: the names of partitions "
            "would show its values",
        )
        for name, by in declared.items()
        if by is not None and covers(hidden, by.column)
    ]


def _key(settings: Settings) -> str:
    """Return the project's key; create it once, so that equal values have equal hashes in every
    run."""
    path = ready(settings.state_folder) / KEY_FILE
    aside = path.with_name(f".{KEY_FILE}.{uuid4()}")
    if not path.exists():
        durable.write(aside, secrets.token_hex(32).encode(), mode=0o600, new=True)
        try:
            # If two processes create a key, the second keeps the first's.
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        finally:
            os.unlink(aside)
    return path.read_text().strip()
