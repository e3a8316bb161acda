"""`tallyman trace`: show what a run changed, row by row and step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tallyman.cli.ask.trace_text import (
    print_changes,
    print_history,
    print_matches,
    print_overview,
    print_state,
)
from tallyman.cli.terminal.options import AsJson, Partition, ProjectFolder, RunName, opened, pairs
from tallyman.cli.terminal.output import as_json, err
from tallyman.domain.history.asked_row import asked_row, said
from tallyman.domain.history.trace import Changes, Diagnostic, TargetTrace, plain
from tallyman.errors import UsageError

if TYPE_CHECKING:
    from tallyman.query.trace.asset import Trace
    from tallyman.query.trace.row import TraceRow

MATCHES = 20
"""The most rows to list when --key matches several."""


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """The options that say which row to show, and which part of its history."""

    row_id: str | None
    key: list[str]
    at_step: int | None
    include_baseline: bool
    asset: str | None
    partition: str | None


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    facts: Mapping[str, object]
    shown: Callable[[], None] | None
    diagnostic: Diagnostic | None
    code: int = 0

    @property
    def exit_code(self) -> int:
        return 1 if self.diagnostic else self.code

    def to_json(self) -> dict[str, object]:
        said = self.diagnostic.to_json() if self.diagnostic else None
        return {**self.facts, "diagnostic": said}


def trace(
    run: RunName,
    row_id: Annotated[str | None, typer.Argument(help="The row's `_row_id`.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            help="Find the row by values it had when it was loaded or created, instead of by id: "
            "column=value,column=value; `null` is NULL, `'null'` is the text. Repeat --key for "
            "values with a comma.",
        ),
    ] = None,
    at_step: Annotated[
        int | None, typer.Option("--at-step", help="Show the row as it was after this step.")
    ] = None,
    include_baseline: Annotated[
        bool,
        typer.Option("--include-baseline", help="Also show the row as it was loaded, as step 0."),
    ] = False,
    asset: Annotated[str | None, typer.Option("--asset", help="Only this asset.")] = None,
    partition: Partition = None,
    step: Annotated[
        int | None, typer.Option("--step", help="List all changes of this step; needs --asset.")
    ] = None,
    change_type: Annotated[
        str | None,
        typer.Option("--type", help="With --step: only created, updated or deleted rows."),
    ] = None,
    limit: Annotated[int, typer.Option(help="With --step: list at most this many changes.")] = 100,
    after: Annotated[
        str | None, typer.Option("--after", help="With --step: start after this row id.")
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Show what a run changed, row by row and step by step.

    A run records every row that a step created, updated or deleted. Rows that no step changed have
    no record. The run must have ended.

    tallyman trace latest: list the steps, and how many rows each step changed

    tallyman trace latest --key journal_id=JE-002,line=2: show the history of one row

    tallyman trace latest ROW_ID --at-step 20: show the row as it was after step 20

    tallyman trace latest --asset gl_close --step 30 --type deleted: list the rows step 30 deleted
    """
    asked = TraceQuestion(row_id, key or [], at_step, include_baseline, asset, partition)
    _check(asked, step, change_type, after)
    with opened(project).trace(run) as found:
        if step is not None and asset is not None:
            page = found.changes(
                asset, step, change_type, partition=partition, limit=limit, after=after
            )
            answer = _changes(asset, step, page)
        elif row_id is None and not key:
            answer = _overview(found.overview(asset, partition), found.diagnostic)
        else:
            answer = _about_row(found, asked)
        if json_output:
            as_json({"run_id": found.run.run_id, **answer.to_json()})
        elif answer.shown is not None:
            answer.shown()
    if answer.diagnostic and not json_output:
        err.print(str(answer.diagnostic))
    raise typer.Exit(answer.exit_code)


def _check(
    asked: TraceQuestion, step: int | None, change_type: str | None, after: str | None
) -> None:
    of_row = asked.row_id is not None or bool(asked.key)
    if asked.row_id is not None and asked.key:
        raise UsageError("give either a row id or --key, not both")
    if of_row and step is not None:
        raise UsageError("--step lists all rows of a step; for one row use --at-step")
    if asked.at_step is not None and not of_row:
        raise UsageError("--at-step needs a row: give its id or --key")
    if step is not None and asked.asset is None:
        raise UsageError("--step needs --asset: steps are numbered within an asset")
    if step is None and (change_type is not None or after is not None):
        raise UsageError("--type and --after need --step")


def _changes(asset: str, step: int, page: Changes) -> TraceAnswer:
    facts = {
        "asset": asset,
        "step": step,
        "changes": [record.to_json() for record in page],
        "next_after": str(page.next_after) if page.next_after else None,
    }
    return TraceAnswer(facts, lambda: print_changes(page), page.diagnostic)


def _overview(targets: list[TargetTrace], diagnostic: Diagnostic | None) -> TraceAnswer:
    facts: dict[str, object] = {"assets": [target.to_json() for target in targets]}
    return TraceAnswer(facts, lambda: print_overview(targets), diagnostic)


def _about_row(trace: Trace, asked: TraceQuestion) -> TraceAnswer:
    if asked.row_id is not None:
        return _row(trace.row(asked.row_id, asked.asset, asked.partition), asked)
    values = key_values(asked.key)
    found = trace.matches(values, asked.asset, asked.partition, limit=MATCHES + 1)
    if len(found) == 1:
        target = found[0].target
        return _row(trace.row(found[0].row_id, target.asset, target.partition), asked)
    if found:
        facts = {
            "matches": [row.to_json() for row in found[:MATCHES]],
            "more": len(found) > MATCHES,
        }
        return TraceAnswer(facts, lambda: print_matches(found, MATCHES), None, code=2)
    shown = said(asked_row(values), ", ")
    reason = f"this run changed or created no row that started with {shown}"
    return TraceAnswer({"matches": []}, None, trace.diagnostic or Diagnostic("RowNotFound", reason))


def _row(row: TraceRow, asked: TraceQuestion) -> TraceAnswer:
    if asked.at_step is not None:
        at = row.at_step(asked.at_step)
        state = at.state
        facts = _identity(row) | {"at_step": asked.at_step, "row_at_step": plain(state)}
        shown = None if state is None else (lambda: print_state(row, state, asked.at_step))
        return TraceAnswer(facts, shown, at.diagnostic)
    history = row.history(asked.include_baseline)
    facts = _identity(row) | {"history": [entry.to_json() for entry in history]}
    return TraceAnswer(
        facts, (lambda: print_history(row, history)) if history else None, history.diagnostic
    )


def _identity(row: TraceRow) -> dict[str, object]:
    target = row.target
    return {
        "asset": target.asset if target else None,
        "partition": target.partition if target else None,
        "row_id": str(row.row_id),
    }


def key_values(given: list[str]) -> dict[str, str]:
    """Parse `a=1,b=2`. If --key is repeated, each one holds a single value, which may contain
    commas."""
    if len(given) > 1:
        return pairs(given, "--key")
    return pairs(given[0].split(","), "--key")
