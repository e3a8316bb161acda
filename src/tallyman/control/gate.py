"""The gate: records in and fates out must be the same keys, or nothing is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tallyman.domain.ledger import Ledger
from tallyman.engine.proof import compare_keys
from tallyman.engine.source import Input
from tallyman.errors import RowsUnaccountedFor


def prove(ledger: Ledger, inputs: Mapping[str, Input], names: list[str], folder: Path) -> Ledger:
    """Count and digest decide; only a mismatch is worth comparing key by key."""
    if ledger.digests_agree:
        return ledger
    found = compare_keys([inputs[name] for name in names], ledger.to_json(), folder)
    return replace(ledger, discrepancy=found)


def check(ledger: Ledger) -> None:
    if not ledger.balanced:
        found = ledger.discrepancy
        missing = found.missing or max(ledger.unaccounted, 0)
        raise RowsUnaccountedFor(ledger.asset, missing, found.extra, found.duplicate)


def explanation(ledger: Ledger) -> str:
    """ACCOUNTING_FAILURE.txt: for the person who is called at night."""
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
    return "\n".join([*lines, "", "Nothing was published.", ""])
