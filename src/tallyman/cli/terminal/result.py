"""Text output for the end of a run or of a change to tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import typer

from tallyman.cli.terminal.output import as_json, err, next_steps, out, published
from tallyman.domain.history.run import AssetResult, RunResult, Status

if TYPE_CHECKING:
    from tallyman.control.publish.mutate import WrittenChange
    from tallyman.domain.version.commit import Commit


def show_result(result: RunResult, json_output: bool) -> NoReturn:
    print_result(result, json_output)
    raise typer.Exit(result.exit_code)


def print_result(result: RunResult, json_output: bool) -> None:
    if json_output:
        as_json(result.to_json())
        return
    for made in result.assets:
        _print_problems(made)
    if result.commit:
        out.print(published(result.commit))
    out.print(f"{_verdict(result)}   run {result.run_id}   {result.folder}")
    for line in next_steps(result):
        out.print(line)
    if any(made.rejections for made in result.assets):
        out.print("rejections: tallyman rejections ls latest")
    for note in result.notes:
        err.print(note, style="yellow")


def _print_problems(made: AssetResult) -> None:
    if made.error and made.status is not Status.PENDING:
        err.print(_named(made), style="red")
        if made.error.get("hint"):
            err.print(f"  {made.error['hint']}")
    if made.reused:
        err.print(f"note: {made.name}: {made.reused}")
    for column, count in made.null_keys.items():
        note = f"warning: {made.name}: key column {column} is NULL in {count:,} row(s)"
        err.print(note, style="yellow")
    for warning in (*made.input_warnings, *made.warnings):
        err.print(f"warning: {made.name}: {warning}", style="yellow")
    for one in made.references:
        if one.unmatched:
            err.print(f"note: {made.name}: {one}")
    for place, columns in made.missing_columns.items():
        lacking = ", ".join(f"{name} in {count:,}" for name, count in columns.items())
        note = f"note: {made.name}: NULL for columns that files of {place} lack, records: {lacking}"
        err.print(note)


def _named(made: AssetResult) -> str:
    """Prefix the message with the asset's name, unless the message already begins with it."""
    message = str((made.error or {}).get("message", ""))
    begins = message.removeprefix(made.name)
    about_it = begins != message and not begins[:1].isidentifier()
    return message if about_it else f"{made.name}: {message}"


def _verdict(result: RunResult) -> str:
    if result.status is not Status.SUCCESS:
        return result.status.value
    if any(made.status is Status.SUCCESS for made in result.assets):
        return "balanced"
    return "reused" if result.commit else "unchanged"


def commit_facts(commit: Commit | None) -> dict[str, Any]:
    moves = commit.moves if commit else ()
    return {
        "commit": str(commit.id) if commit else None,
        "versions": {move.dataset: move.ordinal for move in moves},
    }


def print_change(found: WrittenChange, json_output: bool) -> None:
    if json_output:
        as_json(found.to_json())
        return
    for name, change in found.changed.items():
        out.print(
            f"{name}   {change.rows_inserted:,} inserted   {change.rows_updated:,} updated   "
            f"{change.rows_deleted:,} deleted"
        )
    out.print(published(found.commit) if found.commit else "nothing to change")
