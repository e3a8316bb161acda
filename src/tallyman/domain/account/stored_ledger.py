"""A stored ledger: what the file claims, not what can be derived.

A `Ledger` derives its sums; a `StoredLedger` repeats those of the file, so that each claim can be
checked against the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.ledger import (
    PROOF,
    WEAKER_PROOF,
    Discrepancy,
    KeyDigest,
    Ledger,
    Partition,
    SubLedger,
    by_fate,
)
from tallyman.domain.account.reference_tally import ReferenceTally


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInputs:
    """The input side of a ledger, all inputs together."""

    digest: KeyDigest
    key_field: str = ""
    hashes: tuple[str, ...] = ()
    """The content hash of each accounted input, in the order in which the plan reads them."""
    null_keys: int | None = None
    duplicate_keys: int | None = None
    """None if duplicates were not counted."""
    blank_lines: int | None = None
    named_by_place: bool = False
    missing_columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The records of files without a column, by input and column."""

    @property
    def records(self) -> int:
        return self.digest.count

    def hashes_of(self, inputs: Sequence[str]) -> dict[str, str]:
        """Map each input to its content hash; empty if the file does not distinguish these
        inputs.
        """
        if len(self.hashes) != len(inputs):
            return {}
        return dict(zip(inputs, self.hashes, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProof:
    """The run's conclusion about its own accounting."""

    balanced: bool
    method: str
    query: str = ""
    found: Discrepancy = field(default_factory=Discrepancy)
    failed_checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLedger:
    """The content of one ledger.json."""

    run_id: str
    asset: str
    input_dataset: str
    inputs: StoredInputs
    partitions: tuple[Partition, ...]
    total_accounted: int
    unaccounted: int
    proof: StoredProof
    sub_ledgers: tuple[SubLedger, ...] = ()
    versions: tuple[InputVersion, ...] = ()
    """What was read of each input that is a dataset."""
    references: tuple[ReferenceTally, ...] = ()
    replay_of: str | None = None
    redacted: tuple[str, ...] = ()
    """The columns for which the run kept only hashes."""
    files: Mapping[str, str] | None = None
    """sha256 of each file next to the ledger, by relative path."""

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        *,
        redacted: tuple[str, ...] = (),
        files: Mapping[str, str] | None = None,
    ) -> StoredLedger:
        """Copy the claims of a finished asset's ledger."""
        return cls(
            run_id=ledger.run_id,
            asset=ledger.asset,
            input_dataset=" + ".join(account.dataset for account in ledger.inputs),
            inputs=_inputs(ledger),
            partitions=ledger.partitions,
            total_accounted=ledger.accounted.count,
            unaccounted=ledger.unaccounted,
            proof=_proof(ledger),
            sub_ledgers=ledger.sub_ledgers,
            versions=ledger.versions,
            references=ledger.references,
            replay_of=ledger.replay_of,
            redacted=redacted,
            files=files,
        )

    @property
    def has_keys(self) -> bool:
        """True if every key is stored, False if groups are stored as digests."""
        return self.proof.method == PROOF

    @property
    def records_in(self) -> int:
        return self.inputs.records

    @property
    def accounted(self) -> KeyDigest:
        return sum((part.digest for part in self.partitions), KeyDigest())

    @property
    def levels(self) -> tuple[tuple[Partition, ...], ...]:
        """List the partitions of the records, then those of each sub-ledger."""
        return (self.partitions, *(sub.partitions for sub in self.sub_ledgers))

    def evidence_of(self, fate: Fate) -> Iterator[Partition]:
        """Yield the partitions of one fate, at the level of records and of every sub-ledger."""
        return (part for level in self.levels for part in level if part.fate is fate)

    def totals(self) -> StoredLedger:
        """Condense to one partition per fate, so that a run with many targets fits in memory."""
        parts = (
            Partition(fate=fate, description="", digest=KeyDigest(count), location="")
            for fate, count in by_fate(self.partitions).items()
            if count
        )
        proof = StoredProof(balanced=self.proof.balanced, method=self.proof.method)
        kept = replace(self, partitions=tuple(parts), sub_ledgers=(), versions=(), references=())
        return replace(kept, files=None, proof=proof)


def _inputs(ledger: Ledger) -> StoredInputs:
    duplicates = [account.duplicate_keys for account in ledger.inputs]
    return StoredInputs(
        digest=ledger.door,
        key_field=" + ".join(dict.fromkeys(account.key_field for account in ledger.inputs)),
        hashes=tuple(account.content_hash for account in ledger.inputs),
        null_keys=sum(account.null_keys for account in ledger.inputs),
        duplicate_keys=None if None in duplicates else sum(d or 0 for d in duplicates),
        blank_lines=sum(account.blank_lines for account in ledger.inputs),
        named_by_place=any(account.named_by_place for account in ledger.inputs),
        missing_columns={a.name: a.missing_columns for a in ledger.inputs if a.missing_columns},
    )


def _proof(ledger: Ledger) -> StoredProof:
    return StoredProof(
        balanced=ledger.balanced,
        method=PROOF if ledger.evidence == "keys" else WEAKER_PROOF,
        query=ledger.query,
        found=ledger.discrepancy,
        failed_checks=tuple(str(check) for check in ledger.failed_checks),
    )
