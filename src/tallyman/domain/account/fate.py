"""What became of a record. Exactly one per record and asset."""

from __future__ import annotations

from enum import StrEnum


class Fate(StrEnum):
    PASSED = "PASSED"
    FILTERED = "FILTERED"
    ERROR = "ERROR"
    AGGREGATED = "AGGREGATED"
    EXPLODED = "EXPLODED"


class Evidence(StrEnum):
    """What of the proof is stored: every key, or keys of the dropped and digests of the rest."""

    KEYS = "keys"
    DIGEST = "digest"
