"""`tallyman rejections`: list, replay and discard rejected records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tallyman.cli.terminal.options import AsJson, Master, ProjectFolder, RunName, SparkConf, opened
from tallyman.cli.terminal.output import (
    answer,
    as_json,
    counted,
    err,
    out,
    published,
    short,
    table,
    tally,
)
from tallyman.cli.terminal.progress import Progress, supervised
from tallyman.domain.history.run import AssetResult, RunResult, Status

if TYPE_CHECKING:
    from tallyman.control.rejections.rejections import Replayed, ReplayOutcome
    from tallyman.control.run.progress import Listener
    from tallyman.project import Project

rejections = typer.Typer(
    help="List, correct and replay records that were rejected.",
    no_args_is_help=True,
)
OnlyAsset = Annotated[str | None, typer.Option("--asset", help="Only this asset.")]
Where = Annotated[
    str | None,
    typer.Option(
        help="Only rejections that match this SQL condition. Fields: source_key, error_type, "
        "morphism_path, expected, actual, error_code, context['step']. "
        "Example: \"error_code = 'NEGATIVE_PRICE'\""
    ),
]
OnlyOpen = Annotated[
    bool, typer.Option("--open", help="Only rejections that were not yet replayed or discarded.")
]
STATES = ("open", "replayed", "moved", "discarded")


@rejections.command("ls")
def rejections_ls(
    run: RunName = "latest",
    asset: OnlyAsset = None,
    only_open: OnlyOpen = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Count rejections by asset, type and rule.

    A rejection is open until it is replayed or discarded. moved: a replay rejected the record
    again, and the rejection of that run is the open one.
    """
    found = opened(project)
    chosen = found.runs.chosen(run, asset=asset)
    rows = found.rejections.summary(chosen, only_open=only_open)
    if json_output:
        as_json(rows)
        return
    touched = any(row["open"] != row["count"] for row in rows)
    states = STATES if touched else ("open",)
    names = ("asset", "error_type", "morphism_path", "count", *states)
    none = f"no {'open ' if only_open else ''}rejections in run {short(chosen.run.run_id)}"
    latest = ", the latest; `tallyman runs` lists the others" if run == "latest" else ""
    columns = (*names, "sample_error_code", "sample_actual_value")
    table(rows, columns) if rows else out.print(f"{none}{latest}")
    if rows:
        name = short(chosen.run.run_id)
        out.print(f"list each one:  tallyman rejections show {name}")
        if any(row["open"] for row in rows):
            out.print(
                f"to correct and replay them:  tallyman rejections replay {name} --with FILE.jsonl"
            )


@rejections.command("show")
def rejections_show(
    run: RunName = "latest",
    key: Annotated[str | None, typer.Option(help="Only this source key.")] = None,
    error_type: Annotated[str | None, typer.Option("--type", help="Only this error type.")] = None,
    asset: OnlyAsset = None,
    where: Where = None,
    only_open: OnlyOpen = False,
    limit: Annotated[int, typer.Option(help="List at most this many.")] = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List rejected records, why each was rejected, and its state."""
    found = opened(project)
    chosen = found.runs.chosen(run, asset=asset, where=where)
    count, rows = found.rejections.listed(
        chosen, key=key, kind=error_type, only_open=only_open, limit=limit
    )
    records, _ = found.rejections.counts(chosen)
    if json_output:
        as_json({"count": count, "records": records, "rejections": rows})
        return
    names = ("source_key", "error_type", "morphism_path", "expected", "actual", "error_code")
    several = len({row["target"] for row in rows}) > 1
    table(rows, (*(["target"] if several else []), *names, "state"))
    states = ", ".join(f"{records[state]:,} {state}" for state in STATES)
    out.print(f"{len(rows):,} of {count:,}   records: {states}")


@rejections.command("replay")
def rejections_replay(
    run: RunName,
    asset: OnlyAsset = None,
    where: Where = None,
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--with",
            help="A file of JSON lines with corrected records; only these are replayed. A record "
            'replaces the rejected one with the same key; use "_source_key": "@file#3" to name a '
            "record without a key.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen; write nothing.")
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Run open rejections through the same plan again, corrected or not.

    Records that pass are published by an ordinary commit. Records that fail again become rejections
    of the new run, with their new reason. Replaying twice changes nothing.

    If the plan combines records (groupBy, dropDuplicates, windows), all records are evaluated
    again, with the corrections applied; otherwise only the replayed ones.
    """
    found = opened(project, master, spark_conf)
    chosen = found.runs.chosen(run, asset=asset, where=where)

    def work(progress: Progress) -> Replayed:
        return found.rejections.replay(
            chosen, corrected=corrected, dry_run=dry_run, listen=_quietly(progress)
        )

    done = supervised(found, json_output, work)
    _show(found, done, dry_run, json_output)


def _quietly(progress: Progress) -> Listener:
    """Show phases only; the tally is printed with the outcome."""

    def listen(target: str, phase: str, result: AssetResult | None) -> None:
        if result is None:
            progress(target, phase, None)

    return listen


def _show(found: Project, done: Replayed, dry_run: bool, json_output: bool) -> NoReturn:
    stale = _stale(found, done.run)
    code = done.run.exit_code if done.run else 0
    if json_output:
        as_json(_as_json(done, stale))
        raise typer.Exit(code)
    if not done.outcomes:
        _print_nothing(done)
        raise typer.Exit(0)
    for outcome in done.outcomes:
        _print_outcome(outcome, dry_run)
    if done.run is None:
        out.print("nothing was written (--dry-run)")
        raise typer.Exit(0)
    _print_run(done, done.run, stale)
    raise typer.Exit(code)


def _print_nothing(done: Replayed) -> None:
    records = done.records
    total = sum(records.values())
    done_by = [
        f"{counts[state]:,} {word} in run {run}"
        for run, counts in done.replays.items()
        for state, word in (("replayed", "replayed"), ("moved", "rejected again"))
        if counts[state]
    ]
    done_by.append(f"{records['discarded']:,} discarded")
    out.print(
        f"nothing to replay: {records['open']:,} open of {total:,} rejected ({', '.join(done_by)})"
    )
    for run, counts in done.replays.items():
        if counts["moved"]:
            out.print(f"to replay those:  tallyman rejections replay {run}")


def _print_outcome(outcome: ReplayOutcome, dry_run: bool) -> None:
    words = ("would pass", "would be rejected again") if dry_run else ("passed", "rejected again")
    of = " (all records were evaluated again)" if outcome.whole else ""
    out.print(
        f"{outcome.target}   {outcome.replayed:,} replayed = {outcome.passed:,} {words[0]} + "
        f"{_filtered(outcome.filtered)}{outcome.rejected:,} {words[1]}{of}"
    )
    for reason in outcome.reasons:
        out.print(
            f"    {reason['count']:>10,}  {reason['error_type']}  {reason['morphism_path']}  "
            f"{reason['sample_error_code']}"
        )
    for one in outcome.corrections:
        out.print(f"    {one.source_key}   {one.values}")
    if (more := outcome.corrected - len(outcome.corrections)) and outcome.corrections:
        out.print(f"    … {more:,} more corrected")
    out.print(tally(outcome.result))
    if outcome.result.error:
        err.print(f"  {outcome.result.error['message']}", style="red")


def _filtered(count: int) -> str:
    return f"{count:,} filtered + " if count else ""


def _print_run(done: Replayed, result: RunResult, stale: list[dict[str, Any]]) -> None:
    if result.commit:
        out.print(published(result.commit))
    good = result.status is Status.SUCCESS
    if len(done.outcomes) > 1:
        out.print(_together(done, result))
    word = "balanced" if good else result.status.value
    out.print(f"{word}   run {result.run_id}   a replay of run {done.of}   {result.folder}")
    left = [one.result.rejections if one.whole else one.rejected for one in done.outcomes]
    if good and any(left):
        out.print(f"still open:  tallyman rejections replay {result.run_id}")
    for row in stale:
        out.print(f"now stale: {row['dataset']}:  {row['command']}")
    if not good and result.status is not Status.WAITING:
        out.print(f"nothing was published; to try again:  tallyman rejections replay {done.of}")


def _together(done: Replayed, result: RunResult) -> str:
    """Say what became of all targets: they are published in one commit, or none is."""
    records = sum(outcome.replayed for outcome in done.outcomes)
    line = f"{counted(records, 'record')} of {len(done.outcomes):,} targets"
    bad = sum(not outcome.result.status.good for outcome in done.outcomes)
    if bad:
        return f"{line}: none was replayed, because {counted(bad, 'target')} failed"
    passed = sum(outcome.passed for outcome in done.outcomes)
    filtered = sum(outcome.filtered for outcome in done.outcomes)
    again = records - passed - filtered
    commit = f"in one commit, {short(str(result.commit.id))}" if result.commit else "no commit"
    return f"{line}: {passed:,} passed + {_filtered(filtered)}{again:,} rejected again, {commit}"


def _stale(found: Project, result: RunResult | None) -> list[dict[str, Any]]:
    """List what was made from the datasets that moved, each with the command that makes it
    again."""
    moved = set(result.published()) if result else set()
    if not moved:
        return []
    rows = []
    for row in found.stale():
        if row["cause"] in moved:
            only = f" --partition {row['partition']}" if row["partition"] else ""
            command = f"tallyman run {row['producer']}{only}"
            rows.append({**row, "command": command})
    return rows


def _as_json(done: Replayed, stale: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "replay_of": done.of,
        "rejections": dict(done.records),
        "replays": {run: dict(counts) for run, counts in done.replays.items()},
        "outcomes": [outcome.to_json() for outcome in done.outcomes],
        "run": done.run.to_json() if done.run else None,
        "stale": stale,
    }


@rejections.command("discard")
def rejections_discard(
    run: RunName,
    reason: Annotated[str, typer.Option(help="Why they will not be corrected; recorded.")],
    asset: OnlyAsset = None,
    where: Where = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Discard open rejections. Who, when and why is recorded.

    Discarded rejections are no longer replayed. The dead-letter files stay.
    """
    found = opened(project)
    chosen = found.runs.chosen(run, asset=asset, where=where)
    targets = found.rejections.discard(chosen, reason)
    count = sum(targets.values())
    name = chosen.run.run_id
    text = f"{counted(count, 'record')} of run {name} discarded: {reason}"
    answer({"run_id": name, "discarded": count, "targets": targets}, text, json_output)
