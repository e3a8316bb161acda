"""A pipeline version: one distinct definition of a pipeline, kept so that it can be run again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineVersion:
    """Its hash is that of its plan: pipelines with equal plans are one version."""

    hash: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    """A summary of its assets and tables."""
    plan: str
    """The compiled form, as `tallyman compile` prints it."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """The text of the files it was first compiled from, without secrets, by their names; the text
    is None if it is no text or too large to be kept."""
    created_at: datetime | None = None


def version_hash(plan: str) -> str:
    """Return the hash of the version with this plan."""
    return hashlib.sha256(plan.encode()).hexdigest()
