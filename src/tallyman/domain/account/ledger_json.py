"""ledger.json: writing and reading. Only this module knows the names of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.ledger import (
    DIGEST_VERSION,
    Discrepancy,
    KeyDigest,
    Partition,
    SubLedger,
)
from tallyman.domain.account.reference_tally import ReferenceTally
from tallyman.domain.account.stored_ledger import StoredInputs, StoredLedger, StoredProof
from tallyman.domain.codec import Unfit, of_plain, to_plain

VERSION = "1.0"
KINDS = ("missing", "extra", "duplicate")

PARTITION_TYPE = {fate: fate.value for fate in Fate} | {Fate.PASSED: "PASS_THROUGH"}
FATE = {name: fate for fate, name in PARTITION_TYPE.items()}
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


def to_json(ledger: StoredLedger) -> dict[str, Any]:
    return {
        "ledger_version": VERSION,
        "digest_version": DIGEST_VERSION,
        "run_id": ledger.run_id,
        **({"replay_of": ledger.replay_of} if ledger.replay_of else {}),
        "asset": ledger.asset,
        "input_dataset": ledger.input_dataset,
        "input_accounting": _inputs_json(ledger.inputs),
        "versions": [version.to_json() for version in ledger.versions],
        "output_accounting": {
            "partitions": [_partition_json(part) for part in ledger.partitions],
            "total_accounted": ledger.total_accounted,
            "unaccounted": ledger.unaccounted,
        },
        "sub_ledgers": [_sub_json(sub) for sub in ledger.sub_ledgers],
        "references": to_plain(ledger.references),
        "verification": _proof_json(ledger.proof),
        **({"redacted": list(ledger.redacted)} if ledger.redacted else {}),
        **({"files": dict(ledger.files)} if ledger.files is not None else {}),
    }


def of_json(found: Mapping[str, Any]) -> StoredLedger:
    """Read what `to_json` wrote; ValueError if it is not a ledger."""
    try:
        if (stated := found["digest_version"]) != DIGEST_VERSION:
            raise ValueError(f"its digests are of version {stated}, not {DIGEST_VERSION}")
        out = found["output_accounting"]
        return StoredLedger(
            run_id=str(found["run_id"]),
            asset=str(found["asset"]),
            input_dataset=str(found["input_dataset"]),
            inputs=_read_inputs(found["input_accounting"]),
            partitions=tuple(map(_read_partition, out["partitions"])),
            total_accounted=_number(out["total_accounted"]),
            unaccounted=_number(out["unaccounted"]),
            proof=_read_proof(found["verification"]),
            sub_ledgers=tuple(map(_read_sub, found["sub_ledgers"])),
            versions=tuple(map(InputVersion.of_json, found["versions"])),
            references=tuple(of_plain(ReferenceTally, one) for one in found["references"]),
            replay_of=found.get("replay_of"),
            redacted=tuple(found.get("redacted", ())),
            files=files_listed(found),
        )
    except (AttributeError, KeyError, TypeError, Unfit) as error:
        raise ValueError(f"it is not a ledger: {error!r}") from error


def is_ledger(found: object) -> bool:
    """True if an object is the ledger of a target; the ledger of a whole run is not."""
    return isinstance(found, dict) and "output_accounting" in found


def files_listed(found: object) -> dict[str, str] | None:
    """Read the file hashes that a ledger lists, whatever else it contains; None if it lists
    none.
    """
    files = found.get("files") if isinstance(found, dict) else None
    return files if isinstance(files, dict) else None


def partition_type(part: Partition) -> str:
    """Translate a partition's fate to its name in ledger.json."""
    return PARTITION_TYPE[part.fate]


# ---- to JSON ----------------------------------------------------------------------------------


def _inputs_json(inputs: StoredInputs) -> dict[str, Any]:
    return {
        "total_records": inputs.records,
        "source_key_field": inputs.key_field,
        "input_hash": "+".join(inputs.hashes),
        "null_keys": inputs.null_keys,
        "duplicate_keys": inputs.duplicate_keys,
        "blank_lines": inputs.blank_lines,
        "key_digest": str(inputs.digest),
        **({"named_by_place": True} if inputs.named_by_place else {}),
        **({"missing_columns": _plain(inputs.missing_columns)} if inputs.missing_columns else {}),
    }


def _plain(missing: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(columns) for name, columns in missing.items()}


def _partition_json(part: Partition) -> dict[str, Any]:
    return {
        "partition_type": PARTITION_TYPE[part.fate],
        "description": part.description,
        "record_count": part.digest.count,
        "adjoint_type": ADJOINT_TYPE[part.fate],
        "adjoint_location": part.location,
        "verification": VERIFICATION[part.fate],
        "key_digest": str(part.digest),
        **({"key_columns": list(part.key_columns)} if part.key_columns else {}),
        **({"marked": True} if part.marked else {}),
    }


def _sub_json(sub: SubLedger) -> dict[str, Any]:
    stayed = sub.sources
    sources = (
        {"record_count": stayed.count, "key_digest": str(stayed)} if stayed is not None else None
    )
    return {
        "opened_by": sub.opened_by,
        "unit": sub.unit,
        "units_in": sub.units_in,
        "key_digest": str(sub.units),
        "partitions": [_partition_json(part) for part in sub.partitions],
        "unaccounted": sub.unaccounted,
        **({"sources": sources} if sources is not None else {}),
    }


def _proof_json(proof: StoredProof) -> dict[str, Any]:
    found = proof.found
    return {
        "accounting_balanced": proof.balanced,
        "proof_method": proof.method,
        "measured_on": "kept_files",
        "verification_query": proof.query,
        "missing": found.missing,
        "extra": found.extra,
        "duplicate": found.duplicate,
        "samples": dict(found.samples),
        "failed_checks": list(proof.failed_checks),
    }


# ---- from JSON --------------------------------------------------------------------------------


def _read_inputs(found: Mapping[str, Any]) -> StoredInputs:
    return StoredInputs(
        digest=_digest(found["total_records"], found["key_digest"]),
        key_field=str(found["source_key_field"]),
        hashes=_hashes(str(found["input_hash"])),
        null_keys=_count(found["null_keys"]),
        duplicate_keys=_count(found["duplicate_keys"]),
        blank_lines=_count(found["blank_lines"]),
        named_by_place=bool(found.get("named_by_place")),
        missing_columns=_plain(found.get("missing_columns", {})),
    )


def _read_partition(found: Mapping[str, Any]) -> Partition:
    return Partition(
        fate=FATE[found["partition_type"]],
        description=str(found["description"]),
        digest=_digest(found["record_count"], found["key_digest"]),
        location=str(found["adjoint_location"]),
        key_columns=tuple(found.get("key_columns", ())),
        marked=bool(found.get("marked")),
    )


def _read_sub(found: Mapping[str, Any]) -> SubLedger:
    stayed = found.get("sources")
    return SubLedger(
        opened_by=str(found["opened_by"]),
        unit=str(found["unit"]),
        units=_digest(found["units_in"], found["key_digest"]),
        partitions=tuple(map(_read_partition, found["partitions"])),
        sources=_digest(stayed["record_count"], stayed["key_digest"]) if stayed else None,
    )


def _read_proof(found: Mapping[str, Any]) -> StoredProof:
    return StoredProof(
        balanced=bool(found["accounting_balanced"]),
        method=str(found["proof_method"]),
        query=str(found["verification_query"]),
        found=Discrepancy(
            **{kind: _number(found[kind]) for kind in KINDS},
            samples={kind: list(found["samples"][kind]) for kind in KINDS},
        ),
        failed_checks=tuple(found["failed_checks"]),
    )


def _hashes(text: str) -> tuple[str, ...]:
    """Split the text in which the hashes of all inputs are stored."""
    return tuple(text.split("+")) if text else ()


def _digest(count: object, text: object) -> KeyDigest:
    return KeyDigest.of_text(_number(count), str(text))


def _number(found: object) -> int:
    if type(found) is not int:
        raise TypeError(f"{found!r} is not a number")
    return found


def _count(found: object) -> int | None:
    return None if found is None else _number(found)
