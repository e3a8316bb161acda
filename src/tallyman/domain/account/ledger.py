"""The ledger: how many records an asset read, and the fate of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tallyman.domain.account.column_metrics import MetricsByColumn
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.reference_tally import ReferenceTally

PROOF = "set_equality_with_collision_detection"
WEAKER_PROOF = "count_and_additive_key_digest"
_LANES = re.compile(r"[0-9a-f]{64}")
DIGEST_VERSION = 2
"""The version of key digests, which a ledger states."""

UNITS = {"record": "records", "child": "children", "group": "groups", "row": "added rows"}
"""The plural of each unit of a ledger and its sub-ledgers."""


@dataclass(frozen=True, slots=True)
class KeyDigest:
    """A count and the sums of the halves of two 64-bit hashes of each key; equal for equal
    multisets of keys.
    """

    count: int = 0
    high: int = 0
    low: int = 0
    high_2: int = 0
    low_2: int = 0

    def __add__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(
            self.count + other.count,
            self.high + other.high,
            self.low + other.low,
            self.high_2 + other.high_2,
            self.low_2 + other.low_2,
        )

    @classmethod
    def of_text(cls, count: int, text: str) -> KeyDigest:
        """Read the text that `str` wrote: all sums, modulo 2**64."""
        if not _LANES.fullmatch(text):
            raise ValueError(f"{text!r} is not a digest of keys")
        return cls(count, *(int(text[at : at + 16], 16) for at in range(0, len(text), 16)))

    def __str__(self) -> str:
        sums = (self.high, self.low, self.high_2, self.low_2)
        return "".join(f"{value % 2**64:016x}" for value in sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The records that met one fate at one step, and the location of the proof."""

    fate: Fate
    description: str
    digest: KeyDigest
    location: str
    key_columns: tuple[str, ...] = ()
    """The columns of an output that hold the source key, if there are such columns."""
    marked: bool = False
    """True if rows of an output name the step that made them, and steps added rows without a
    record.
    """
    staged: KeyDigest | None = None
    """The digest of what the segments wrote, if it was counted; `digest` is of the kept files."""

    @property
    def step(self) -> str:
        """Name the step that gave the fate, as its evidence is named."""
        return self.location.rstrip("/").rpartition("/")[2].removesuffix(".parquet")


def by_fate(partitions: Iterable[Partition]) -> dict[Fate, int]:
    """Count the records, or the units of a sub-ledger, by fate."""
    counts = dict.fromkeys(Fate, 0)
    for partition in partitions:
        counts[partition.fate] += partition.digest.count
    return counts


def _no_samples() -> dict[str, list[str]]:
    return {"missing": [], "extra": [], "duplicate": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """Exact counts of keys that do not match, with at most a hundred sample keys of each kind."""

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
    """Two measurements that must agree, in the number of keys and in the keys themselves."""

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
    """The balance of the rows that a step made of records: groups or children.

    `units` is measured on the evidence of the step, `partitions` on the fates of these rows.
    """

    opened_by: str
    unit: str
    units: KeyDigest
    partitions: tuple[Partition, ...]
    sources: KeyDigest | None = None
    """The rows they were made of, if these rows stayed and are in no partition of their own."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAccount:
    """The measurement of one input at the door, before any step sees a record."""

    dataset: str
    key_field: str
    content_hash: str
    digest: KeyDigest
    null_keys: int = 0
    duplicate_keys: int | None = None
    blank_lines: int = 0
    named_by_place: bool = False
    """True if evidence also names records by place, because keys did not distinguish them."""
    missing_columns: Mapping[str, int] = field(default_factory=dict)
    """The columns that some files lack, with the number of records in them: NULL there."""
    name: str = ""
    """The name of the input in the pipeline."""
    columns: MetricsByColumn | None = None
    """Metrics of its columns, if they were measured; no part of the proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The balance of one target: records in = sum of fates, proved on keys."""

    run_id: str
    asset: str
    inputs: tuple[InputAccount, ...]
    partitions: tuple[Partition, ...]
    sub_ledgers: tuple[SubLedger, ...] = ()
    evidence: str = "keys"
    discrepancy: Discrepancy = Discrepancy()
    completed: bool = True
    """False if the asset stopped before every record had a fate."""
    replay_of: str | None = None
    """The run whose rejections were replayed, if this is the ledger of a replay."""
    checks: tuple[Check, ...] = ()
    """Further measurements of kept files, each compared with the expected digest."""
    versions: tuple[InputVersion, ...] = ()
    """The version of each input that is a dataset, as the registry records it."""
    references: tuple[ReferenceTally, ...] = ()
    """What the steps looked up, and the records that found no match."""
    query: str = ""
    """SQL that counts the accounted keys in the kept files; DuckDB runs it in the run folder."""

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
        return by_fate(self.partitions)

    @property
    def digests_agree(self) -> bool:
        return self.door == self.accounted

    @property
    def failed_checks(self) -> list[Check]:
        """List the failed checks, other than the balance of the records themselves."""
        levels = [("", self.partitions)]
        levels += [(f" after {sub.opened_by}", sub.partitions) for sub in self.sub_ledgers]
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
