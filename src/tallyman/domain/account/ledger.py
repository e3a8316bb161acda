"""The ledger: what an asset read and where every record of it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyman.domain.account.fate import Fate

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
UNITS = {"record": "records", "child": "children", "group": "groups", "row": "added rows"}
"""What the units of a ledger and its sub-ledgers are called when there are several."""
KEPT_FILES = "kept_files"
"""What the numbers of a ledger were measured on; older ledgers do not say."""


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

    def to_json(self) -> dict[str, object]:
        return {"record_count": self.count, "key_digest": str(self)}

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
    marked: bool = False
    """Rows of an output say which step made them, and some were made by none of the records."""
    staged: KeyDigest | None = None
    """What the segments wrote for it, where that was counted; `digest` is what is kept."""

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
        if self.key_columns:
            found["key_columns"] = list(self.key_columns)
        return found | ({"marked": True} if self.marked else {})


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
class Check:
    """Two measurements that must agree: the same number of keys, and the same keys."""

    what: str
    expected: KeyDigest
    found: KeyDigest

    @property
    def agrees(self) -> bool:
        return self.expected == self.found

    def __str__(self) -> str:
        expected, found = self.expected.count, self.found.count
        if expected != found:
            return f"{self.what}: {expected:,} expected, {found:,} found"
        return f"{self.what}: {found:,} as expected, but not the same ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubLedger:
    """The equation of the rows that a step made out of records: groups, or children.

    `units` are measured on the evidence the step left, the partitions on what became of them.
    """

    opened_by: str
    unit: str
    units: KeyDigest
    partitions: tuple[Partition, ...]
    sources: KeyDigest | None = None
    """The rows they were made of, where those stayed and are in no partition of their own."""

    @property
    def units_in(self) -> int:
        return self.units.count

    @property
    def accounted(self) -> KeyDigest:
        return sum((p.digest for p in self.partitions), KeyDigest())

    @property
    def unaccounted(self) -> int:
        return self.units_in - self.accounted.count

    @property
    def check(self) -> Check:
        what = f"{UNITS[self.unit]} of {self.opened_by}"
        return Check(what=what, expected=self.units, found=self.accounted)

    def to_json(self) -> dict[str, object]:
        return {
            "opened_by": self.opened_by,
            "unit": self.unit,
            "units_in": self.units_in,
            "key_digest": str(self.units),
            "partitions": [p.to_json() for p in self.partitions],
            "unaccounted": self.unaccounted,
            **({"sources": self.sources.to_json()} if self.sources is not None else {}),
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
    """Whether evidence names its records by their place too: keys did not distinguish them."""


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
    checks: tuple[Check, ...] = ()
    """Further measurements of kept files against what was meant to be in them."""
    query: str = ""
    """Counts the accounted keys in the kept files; run by DuckDB in the run's folder."""

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
    def failed_checks(self) -> list[Check]:
        """What does not agree besides the records themselves."""
        levels = [("", self.partitions)]
        levels += [(f" behind {sub.opened_by}", sub.partitions) for sub in self.sub_ledgers]
        found = [
            Check(what=f"{p.location}{at}", expected=p.staged, found=p.digest)
            for at, partitions in levels
            for p in partitions
            if p.staged is not None
        ]
        found += [*(sub.check for sub in self.sub_ledgers), *self.checks]
        return [check for check in found if not check.agrees]

    @property
    def balanced(self) -> bool:
        proved = self.digests_agree and self.discrepancy.empty and not self.failed_checks
        return self.completed and proved

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
                "measured_on": KEPT_FILES,
                "verification_query": self.query,
                "missing": found.missing,
                "extra": found.extra,
                "duplicate": found.duplicate,
                "samples": dict(found.samples),
                "failed_checks": [str(check) for check in self.failed_checks],
            },
        }


def _joint_hash(inputs: tuple[InputAccount, ...]) -> str:
    return "+".join(account.content_hash for account in inputs)
