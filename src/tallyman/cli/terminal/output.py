"""Text and JSON output; colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.table import Table

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import UNITS
from tallyman.domain.account.sub_tally import SubTally
from tallyman.domain.history.run import AssetResult, RunResult, Status
from tallyman.domain.version.commit import Commit
from tallyman.errors import TallymanError, VersionConflict
from tallyman.pages.text import WORDS, printable, short

# Without a terminal the width is unknown: tables are not folded for a program that reads them.
WIDE = None if sys.stdout.isatty() else 240
# Brackets and colons in names, values and messages are text.
out = Console(soft_wrap=True, highlight=False, markup=False, emoji=False, width=WIDE)
err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)

NOT_SEALED = "not sealed: the run has not ended; its manifest is taken on trust"
HEADINGS = {"morphism_path": "step"}
"""Columns whose stored name differs from the glossary's word."""
SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def as_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=text_of))


def answer(facts: object, text: str | Iterable[str], json_output: bool) -> None:
    """Print the facts as JSON, or the text, line by line."""
    if json_output:
        as_json(facts)
        return
    for line in (text,) if isinstance(text, str) else text:
        out.print(line)


def listed(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], none: str, json_output: bool
) -> None:
    """Print the rows as JSON, or as a table; without rows, the text `none`."""
    if json_output:
        as_json(rows)
    elif rows:
        table(rows, columns)
    else:
        out.print(none)


def text_of(value: object) -> str:
    """Write a value that JSON does not have; bytes as hex."""
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def counted(number: int, word: str) -> str:
    """Return `1 file` or `2 files`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def interactive() -> bool:
    return sys.stderr.isatty() and not os.environ.get("CI")


def tally(result: AssetResult, width: int = 0) -> str:
    """Write the tally: 349,660 in = 345,000 aggregated + 4,000 filtered + 660 rejected   0
    unaccounted …"""
    label = f"{result.name}[{result.partition}]" if result.partition else result.name
    name = f"{label:<{width}}"
    seconds = f"{result.duration_ms / 1000:.1f} s"
    if result.status is Status.SKIPPED:
        since = f"unchanged since run {short(result.unchanged_since or '')}"
        return f"{name}   skipped: {since}   {counted(result.rows_out, 'row')} out"
    if result.status is Status.RUNNING:
        return f"{name}   running"
    if result.status is Status.PENDING:
        return f"{name}   not run: {(result.error or {}).get('message', '')}"
    if result.error and not result.records_in and not any(result.fates.values()):
        return f"{name}   {result.status.value}   {seconds}"
    line = f"{name}   {result.records_in:,} in = {_shares(result.fates)}"
    line += f"   {result.unaccounted:,} unaccounted   {counted(result.rows_out, 'row')} out"
    line += f"   {seconds}"
    line = line if result.status is Status.SUCCESS else f"{line}   {result.status.value}"
    below = (_sub_tally(m, result.status) for m in result.sub_ledgers if m.worth_a_line)
    return "\n".join([line, *below])


def _shares(fates: Mapping[Fate, int]) -> str:
    met: dict[str, int] = {fate: count for fate, count in fates.items() if count}
    return " + ".join(f"{met[fate]:,} {word}" for fate, word in WORDS.items() if fate in met) or "0"


def _sub_tally(made: SubTally, status: Status) -> str:
    """Write a sub-ledger: 11,588 parents → 30,000 children = 28,725 passed + 1,275 rejected"""
    parents = "" if made.parents is None else f"{made.parents:,} parents → "
    units = f"  {parents}{made.units_in:,} {UNITS[made.unit]}"
    if status in (Status.HALTED, Status.CANCELED) and not any(made.fates.values()):
        return f"{units} not evaluated"
    line = f"{units} = {_shares(made.fates)}"
    return f"{line}   {made.unaccounted:,} unaccounted" if made.unaccounted else line


def published(commit: Commit) -> str:
    """Write a commit: published   daily_revenue v7 (was v6)   commit 1f0c…"""
    moved = ", ".join(map(str, commit.moves))
    if not moved:
        active = (commit.pipeline_version or "")[:8]
        moved = f"no new version; pipeline version {active} is active now"
    return f"published   {moved}   commit {short(str(commit.id))}"


def next_steps(result: RunResult) -> list[str]:
    """List the commands that continue an unfinished run."""
    lines = []
    for made in result.assets:
        if made.status is Status.WAITING:
            only = f" --partition {made.partition}" if made.partition else ""
            command = f"tallyman approve {result.run_id} {made.name}{only}"
            lines.append(f"waiting for a decision:  {command}  (or reject)")
    if not lines and result.status not in (Status.SUCCESS, Status.RUNNING):
        lines.append(f"to continue it:  tallyman resume {result.run_id}")
    return lines


def failure(error: TallymanError, *, json_output: bool) -> None:
    if json_output:
        # Return the same body for a conflict here and over HTTP, so that a client parses one shape.
        body = error.body() if isinstance(error, VersionConflict) else {"error": error.facts()}
        as_json(body)
        return
    err.print(f"error: {error}", style="red")
    if error.hint:
        err.print(error.hint)


def interrupted(error: KeyboardInterrupt) -> None:
    """Say that the command was interrupted, and in which code of the pipeline if it was there."""
    err.print(f"interrupted {error}".strip())


def starting_spark(reason: str) -> None:
    """Say why a command that usually needs no Spark takes longer."""
    err.print(f"starting Spark: {reason}")


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = bool(rows) and isinstance(rows[0].get(name), int)
        shown.add_column(
            HEADINGS.get(name, name.replace("_", " ")),
            justify="right" if numeric else "left",
            overflow="fold",
        )
    for row in rows:
        shown.add_row(*(_cell(row.get(name)) for name in columns))
    out.print(shown)


def differing(row: Mapping[str, Any], change: str) -> str:
    """Write a row that differs, by its key; `change` says how a value became another."""
    key, before, after = row["key"], row["before"], row["after"]
    if before and after:
        moved = {name: change.format(before.get(name), after.get(name)) for name in row["columns"]}
        rest = [f"{name}: {text}" for name, text in moved.items()]
    else:
        only = after or before or {}
        rest = [f"{name}={value}" for name, value in only.items() if name not in key]
    named = ", ".join(f"{name}={value}" for name, value in key.items())
    return f"{SIGNS[row['kind']]} {'   '.join(filter(None, [named, ', '.join(rest)]))}"


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = printable("" if value is None else text_of(value))
    # A part of a path leads nowhere.
    whole = len(text) <= 120 or isinstance(value, PurePath)
    return text if whole else text[:117] + "…"
