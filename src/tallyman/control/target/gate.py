"""The gate: records in and fates out must be the same keys, or nothing is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tallyman.domain.account.fate import Evidence
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.account.ledger import Check, Discrepancy, KeyDigest, Ledger
from tallyman.engine.evidence.proof import compare_keys, compare_units
from tallyman.engine.source.source import Input
from tallyman.errors import RowsUnaccountedFor


def prove(ledger: Ledger, inputs: Sequence[Input], folder: Path) -> Ledger:
    """Compare counts and digests; compare key by key only if they differ."""
    found = ledger.discrepancy
    if not ledger.digests_agree:
        if ledger.evidence == Evidence.DIGEST:
            found = _by_count(ledger)
        else:
            found = compare_keys(inputs, ledger, folder)
    if (folder / "output").exists() and not all(s.check.agrees for s in ledger.sub_ledgers):
        found += compare_units(inputs[0].spark, ledger, folder)
    return replace(ledger, discrepancy=found)


def _by_count(ledger: Ledger) -> Discrepancy:
    """Estimate the discrepancy without stored keys: the difference in counts, or at least one of
    each."""
    gap = ledger.unaccounted
    return Discrepancy(missing=max(gap, 0) or int(gap == 0), extra=max(-gap, 0) or int(gap == 0))


def with_versions(ledger: Ledger, versions: Sequence[InputVersion]) -> Ledger:
    """Add the versions that were read, each of which has as many rows as its door counted. The
    door of a replay counts the replayed records alone."""
    doors = {account.name: account.digest.count for account in ledger.inputs}
    checks = [
        Check(
            what=f"rows of {version} at the door",
            expected=KeyDigest(version.rows),
            found=KeyDigest(doors[version.input]),
        )
        for version in versions
        if version.input in doors and ledger.replay_of is None
    ]
    return replace(ledger, versions=tuple(versions), checks=(*ledger.checks, *checks))


def check(ledger: Ledger) -> None:
    if not ledger.balanced:
        found = ledger.discrepancy
        missing = found.missing or max(ledger.unaccounted, 0)
        checks = [str(check) for check in ledger.failed_checks]
        raise RowsUnaccountedFor(ledger.asset, missing, found.extra, found.duplicate, checks)


def explanation(ledger: Ledger) -> str:
    """Write ACCOUNTING_FAILURE.txt, for the person on call."""
    found = ledger.discrepancy
    lines = [
        f"The accounting of {ledger.asset} in run {ledger.run_id} does not balance.",
        "",
        f"records in    {ledger.records_in:>14,}",
        *(
            f"{fate.value.lower():<13} {count:>14,}"
            for fate, count in ledger.fates.items()
            if count
        ),
        f"unaccounted   {ledger.unaccounted:>14,}",
        "",
        f"missing {found.missing:,}   extra {found.extra:,}   duplicate {found.duplicate:,}",
    ]
    for kind, keys in found.samples.items():
        lines += [f"{kind}: {key}" for key in keys]
    if failed := ledger.failed_checks:
        lines += ["", "The files do not contain what the steps made:", *map(str, failed)]
    return "\n".join([*lines, "", "Nothing was published.", ""])
