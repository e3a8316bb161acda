"""Fates: what became of a record. A record has exactly one per asset."""

from __future__ import annotations

from enum import StrEnum


class Fate(StrEnum):
    PASSED = "PASSED"
    FILTERED = "FILTERED"
    ERROR = "ERROR"
    AGGREGATED = "AGGREGATED"
    EXPLODED = "EXPLODED"


class Evidence(StrEnum):
    """The stored proof: every key, or keys of dropped records and digests of the rest."""

    KEYS = "keys"
    DIGEST = "digest"
