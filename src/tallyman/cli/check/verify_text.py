"""Text output of `tallyman verify`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallyman.cli.terminal.output import NOT_SEALED, counted, out

if TYPE_CHECKING:
    from tallyman.control.seal.chain import Chain
    from tallyman.control.verify.inputs import Checked
    from tallyman.control.verify.verify import Verification
    from tallyman.domain.version.outside_entry import OutsideEntry
    from tallyman.engine.files.intact import Damage


def print_verdict(verdict: Verification) -> None:
    word = "balanced" if verdict.balanced else "NOT BALANCED"
    counts = verdict.found
    out.print(
        f"{word}   {counts.missing:,} missing   {counts.extra:,} extra   "
        f"{counts.duplicate:,} duplicate   run {verdict.run_id}"
    )
    out.print(_sealed(verdict))
    named = f"{verdict.changes[0].file}: changed" if verdict.changes else None
    others = [reason for reason in verdict.reasons if not (named and reason.startswith(named))]
    for reason in others[:20]:
        out.print(f"  {reason}")
    for target, repeats in verdict.repeated_keys.items():
        out.print(f"  {target}: {repeats:,} records repeat a key")
    for kind, keys in counts.samples.items():
        for key in keys[:10]:
            out.print(f"  {kind}: {key}")


def _sealed(verdict: Verification) -> str:
    seal, changes = verdict.sealed.seal, verdict.changes
    if changes:
        others = f", and {len(changes) - 1:,} other files" if len(changes) > 1 else ""
        return f"CHANGED   {changes[0]}{others.removesuffix('s' if len(changes) == 2 else '')}"
    if seal is None:
        return "NOT SEALED"
    by = verdict.sealed.signed_by
    word = "sealed" if verdict.verified or not verdict.sealed.problems else "SEAL INVALID"
    who = f"signed by {by}" if by else "not signed"
    return f"{word}   no. {seal.ordinal}   {who}   {verdict.sealed.files:,} files   {seal.hash}"


def print_chain(chain: Chain) -> None:
    count = f"{counted(chain.seals, 'seal')}, {chain.signed:,} signed"
    word = "BROKEN" if chain.broken else "intact"
    out.print(f"{word}   {count}   {chain.project}")
    if chain.broken:
        broken = chain.broken
        run = f", run {broken.run}" if broken.run else ""
        out.print(f"  no. {broken.ordinal}{run}: {broken.what}")
        out.print(f"    expected  {broken.expected}")
        out.print(f"    found     {broken.found}")
    if chain.gone:
        out.print(f"  {_gone(chain.gone)}")
    if chain.head:
        out.print(f"head     no. {chain.head[0]}   {chain.head[1]}")


def _gone(runs: list[str]) -> str:
    shown = ", ".join(runs[:5]) + (", …" if len(runs) > 5 else "")
    if len(runs) == 1:
        return f"1 run folder is missing; its seal was read from the registry: {shown}"
    return (
        f"{len(runs):,} run folders are missing; their seals were read from the registry: {shown}"
    )


def print_inputs(found: Checked) -> None:
    if found.change is None:
        settings, inputs = found.checked["config"]["settings"], found.checked["inputs"]
        code = found.checked["code"]
        at = f"commit {code['git_commit'][:12]}" if code["git_commit"] else code["source_hash"][:19]
        listed = f"{counted(inputs['inputs'], 'input')} ({counted(inputs['files'], 'file')}"
        listed += f", {inputs['bytes']:,} bytes)"
        out.print(f"OK   {settings:,} settings, {at}, {listed}   run {found.run_id}")
    else:
        out.print(f"CHANGED   {found.change.kind}   run {found.run_id}")
        out.print(f"  {found.change.message}")
        if found.change.advice:
            out.print(found.change.advice)
    if not found.sealed:
        out.print(NOT_SEALED)


def print_damage(at: str, files: int, damage: Sequence[Damage]) -> None:
    word = "DAMAGED" if damage else "intact"
    out.print(f"{word}   {at}   {counted(files, 'file')}   {len(damage):,} damaged")
    for one in damage[:20]:
        out.print(f"  {one.shown}: {one.kind}: {one.detail}")
    if damage:
        out.print("other versions may be intact:  tallyman versions, tallyman rollback")


def print_outside(differing: Sequence[OutsideEntry]) -> None:
    """Print what outside readers do not find as it was published."""
    for entry in differing:
        out.print(f"OUTSIDE   {entry}")
    if differing:
        out.print("the next publication of the dataset restores it; now:  tallyman doctor --fix")
