"""The ledger: what an asset read and where every record of it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyman.domain.fate import Fate

PROOF = "set_equality_with_collision_detection"
WEAKER_PROOF = "count_and_additive_key_digest"

PARTITION_TYPE = {Fate.PASSED: "PASS_THROUGH"}
ADJOINT_TYPE = {
    Fate.PASSED: "PassThrough",
    Fate.FILTERED: "FilteredKeysMetadata",
    Fate.ERROR: "ErrorRecords",
    Fate.AGGREGATED: "ReverseJoinMetadata",
    Fate.EXPLODED: "ParentChildMetadata",
}
VERIFICATION = {
    Fate.PASSED: "Each row of the output carries its source key",
    Fate.FILTERED: "All filtered keys captured with filter predicate",
    Fate.ERROR: "All error records have source_key linking to input",
    Fate.AGGREGATED: "All source keys recoverable via backward traversal",
    Fate.EXPLODED: "All parent keys recoverable from their children",
}


@dataclass(frozen=True, slots=True)
class KeyDigest:
    """Count and two additive 64-bit lanes over the hashes of keys: equal for equal multisets."""

    count: int = 0
    high: int = 0
    low: int = 0

    def __add__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(self.count + other.count, self.high + other.high, self.low + other.low)

    def __sub__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(self.count - other.count, self.high - other.high, self.low - other.low)

    def __str__(self) -> str:
        return f"{self.high % 2**64:016x}{self.low % 2**64:016x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The records that met one fate at one step, and where the proof lies."""

    fate: Fate
    description: str
    digest: KeyDigest
    location: str
    key_columns: tuple[str, ...] = ()
    """The columns of an output that hold the source key, when they do."""

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "partition_type": PARTITION_TYPE.get(self.fate, self.fate.value),
            "description": self.description,
            "record_count": self.digest.count,
            "adjoint_type": ADJOINT_TYPE[self.fate],
            "adjoint_location": self.location,
            "verification": VERIFICATION[self.fate],
            "key_digest": str(self.digest),
        }
        return found | ({"key_columns": list(self.key_columns)} if self.key_columns else {})


def _no_samples() -> dict[str, list[str]]:
    return {"missing": [], "extra": [], "duplicate": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """Exact counts of what does not match; at most a hundred keys of each kind by name."""

    missing: int = 0
    extra: int = 0
    duplicate: int = 0
    samples: Mapping[str, list[str]] = field(default_factory=_no_samples)

    @property
    def empty(self) -> bool:
        return not (self.missing or self.extra or self.duplicate)

    def __add__(self, other: Discrepancy) -> Discrepancy:
        kinds = ("missing", "extra", "duplicate")
        return Discrepancy(
            missing=self.missing + other.missing,
            extra=self.extra + other.extra,
            duplicate=self.duplicate + other.duplicate,
            samples={k: [*self.samples[k], *other.samples[k]][:100] for k in kinds},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubLedger:
    """The equation of the rows that a step made out of records: groups, or children."""

    opened_by: str
    unit: str
    units_in: int
    partitions: tuple[Partition, ...]

    @property
    def unaccounted(self) -> int:
        return self.units_in - sum(p.digest.count for p in self.partitions)

    def to_json(self) -> dict[str, object]:
        return {
            "opened_by": self.opened_by,
            "unit": self.unit,
            "units_in": self.units_in,
            "partitions": [p.to_json() for p in self.partitions],
            "unaccounted": self.unaccounted,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAccount:
    """What stood at the door: counted and digested before any step saw it."""

    dataset: str
    key_field: str
    content_hash: str
    digest: KeyDigest
    null_keys: int = 0
    duplicate_keys: int | None = None
    blank_lines: int = 0
    named_by_place: bool = False
    """Whether evidence names its records by their place too: keys did not tell them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """in = sum of fates, on keys; or nothing is published."""

    run_id: str
    asset: str
    inputs: tuple[InputAccount, ...]
    partitions: tuple[Partition, ...]
    sub_ledgers: tuple[SubLedger, ...] = ()
    evidence: str = "keys"
    discrepancy: Discrepancy = Discrepancy()
    completed: bool = True
    """False when the asset stopped before every record had met a fate."""
    replay_of: str | None = None
    """The run whose rejections these records, or some of them, were."""

    @property
    def records_in(self) -> int:
        return sum(account.digest.count for account in self.inputs)

    @property
    def door(self) -> KeyDigest:
        return sum((account.digest for account in self.inputs), KeyDigest())

    @property
    def accounted(self) -> KeyDigest:
        return sum((p.digest for p in self.partitions), KeyDigest())

    @property
    def unaccounted(self) -> int:
        return self.records_in - self.accounted.count

    @property
    def fates(self) -> dict[Fate, int]:
        counts = dict.fromkeys(Fate, 0)
        for partition in self.partitions:
            counts[partition.fate] += partition.digest.count
        return counts

    @property
    def digests_agree(self) -> bool:
        return self.door == self.accounted

    @property
    def balanced(self) -> bool:
        whole = all(sub.unaccounted == 0 for sub in self.sub_ledgers)
        return self.completed and self.discrepancy.empty and self.unaccounted == 0 and whole

    def to_json(self) -> dict[str, Any]:
        one = self.inputs[0] if len(self.inputs) == 1 else None
        duplicates = [account.duplicate_keys for account in self.inputs]
        accounting: dict[str, object] = {
            "total_records": self.records_in,
            "source_key_field": " + ".join(dict.fromkeys(a.key_field for a in self.inputs)),
            "input_hash": one.content_hash if one else _joint_hash(self.inputs),
            "null_keys": sum(a.null_keys for a in self.inputs),
            "duplicate_keys": None if None in duplicates else sum(d or 0 for d in duplicates),
            "blank_lines": sum(a.blank_lines for a in self.inputs),
            "key_digest": str(self.door),
            **({"named_by_place": True} if any(a.named_by_place for a in self.inputs) else {}),
        }
        found = self.discrepancy
        return {
            "ledger_version": "1.0",
            "run_id": self.run_id,
            **({"replay_of": self.replay_of} if self.replay_of else {}),
            "asset": self.asset,
            "input_dataset": " + ".join(a.dataset for a in self.inputs),
            "input_accounting": accounting,
            "output_accounting": {
                "partitions": [p.to_json() for p in self.partitions],
                "total_accounted": self.accounted.count,
                "unaccounted": self.unaccounted,
            },
            "sub_ledgers": [sub.to_json() for sub in self.sub_ledgers],
            "verification": {
                "accounting_balanced": self.balanced,
                "proof_method": PROOF if self.evidence == "keys" else WEAKER_PROOF,
                "verification_query": _query(self.partitions),
                "missing": found.missing,
                "extra": found.extra,
                "duplicate": found.duplicate,
                "samples": dict(found.samples),
            },
        }


def _joint_hash(inputs: tuple[InputAccount, ...]) -> str:
    return "+".join(account.content_hash for account in inputs)


def _query(partitions: tuple[Partition, ...]) -> str:
    """How a person with a SQL engine would count the accounted keys, collisions included."""
    column = {Fate.EXPLODED: "DISTINCT parent_key AS source_key"}
    parts = " UNION ALL ".join(
        f"SELECT {column.get(p.fate, 'source_key')} FROM '{p.location}'"
        for p in {p.location: p for p in partitions}.values()
    )
    return f"SELECT source_key, COUNT(*) FROM ({parts}) GROUP BY source_key HAVING COUNT(*) > 1"
