"""What `verify` says of a run and its seal, and of the chain of seals."""

from __future__ import annotations

from typing import NoReturn

import typer

from tallyman.cli.output import as_json, out
from tallyman.control.seal.chain import Chain
from tallyman.control.verify.verify import Verification


def show_verdict(verdict: Verification, json_output: bool) -> NoReturn:
    if json_output:
        as_json(verdict.to_json())
        raise typer.Exit(0 if verdict.verified else 1)
    word = "balanced" if verdict.balanced else "NOT BALANCED"
    counts = verdict.found
    out.print(
        f"{word}   {counts.missing:,} missing   {counts.extra:,} extra   "
        f"{counts.duplicate:,} duplicate   run {verdict.run_id}",
        markup=False,
    )
    out.print(_sealed(verdict), markup=False)
    named = f"{verdict.changes[0].file}: changed" if verdict.changes else None
    told = [reason for reason in verdict.reasons if not (named and reason.startswith(named))]
    for reason in told[:20]:
        out.print(f"  {reason}", markup=False)
    for target, repeats in verdict.repeated_keys.items():
        out.print(f"  {target}: {repeats:,} records have a key seen before", markup=False)
    for kind, keys in counts.samples.items():
        for key in keys[:10]:
            out.print(f"  {kind}: {key}", markup=False)
    raise typer.Exit(0 if verdict.verified else 1)


def _sealed(verdict: Verification) -> str:
    seal, changes = verdict.sealed.seal, verdict.changes
    if changes:
        others = f", and {len(changes) - 1:,} other files" if len(changes) > 1 else ""
        return f"CHANGED   {changes[0]}{others.removesuffix('s' if len(changes) == 2 else '')}"
    if seal is None:
        return "NOT SEALED"
    by = verdict.sealed.signed_by
    word = "sealed" if verdict.verified or not verdict.sealed.problems else "SEAL NOT GOOD"
    who = f"signed by {by}" if by else "not signed"
    return f"{word}   no. {seal.ordinal}   {who}   {verdict.sealed.files:,} files   {seal.hash}"


def show_chain(chain: Chain, json_output: bool) -> NoReturn:
    if json_output:
        as_json(chain.to_json())
        raise typer.Exit(1 if chain.broken else 0)
    count = f"{chain.seals:,} seal{'s' if chain.seals != 1 else ''}, {chain.signed:,} signed"
    word = "BROKEN" if chain.broken else "intact"
    out.print(f"{word}   {count}   {chain.project}", markup=False)
    if chain.broken:
        broken = chain.broken
        run = f", run {broken.run}" if broken.run else ""
        out.print(f"  no. {broken.ordinal}{run}: {broken.what}", markup=False)
        out.print(f"    expected  {broken.expected}", markup=False)
        out.print(f"    found     {broken.found}", markup=False)
    if chain.gone:
        out.print(f"  {_gone(chain.gone)}", markup=False)
    if chain.head:
        out.print(f"head     no. {chain.head[0]}   {chain.head[1]}", markup=False)
    raise typer.Exit(1 if chain.broken else 0)


def _gone(runs: list[str]) -> str:
    shown = ", ".join(runs[:5]) + (", …" if len(runs) > 5 else "")
    if len(runs) == 1:
        return f"1 folder is gone, its seal is as the registry has it: {shown}"
    return f"{len(runs):,} folders are gone, their seals are as the registry has them: {shown}"
