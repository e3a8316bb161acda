"""`tallyman reproduce`: make a run again from its pinned inputs, and compare the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import typer

from tallyman.cli.terminal.options import (
    AsJson,
    Master,
    ProjectFolder,
    RunName,
    SparkConf,
    opened,
    pairs,
)
from tallyman.cli.terminal.output import (
    NOT_SEALED,
    as_json,
    counted,
    differing,
    err,
    out,
    short,
    tally,
)
from tallyman.cli.terminal.progress import Progress
from tallyman.domain.history.reproduction import Reproduced, TargetAgain, Verdict
from tallyman.project import Project

CAUSES = (
    "the same definition and inputs gave different data: look for code whose result the data does "
    "not decide, such as row_number() over ties, first(), collect_list(), "
    "sums of doubles"
)


def reproduce(
    run: RunName = "latest",
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the new files, so that you can inspect them.")
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Make a run again from its pinned inputs, and compare.

    Rows, rejections and ledgers are compared. The verdict is one of: REPRODUCED (exit 0):
    everything is the same. PARTLY_REPRODUCED: the same, except targets that failed in the original
    run and left nothing to compare. DIFFERENT: the differing rows are shown. NOT_REPRODUCIBLE: the
    reasons are shown. Nothing is published, and the run folder is not changed. If the files declare
    another pipeline now, the stored plan of the run is used.

    Example:  tallyman reproduce latest --spark-conf spark.sql.shuffle.partitions=7
    """
    given = pairs(spark_conf or [], "--spark-conf")
    found = opened(project, master)
    shown = _Shown(Progress(quiet=json_output))
    try:
        result = found.reproduce(run, spark_conf=given, keep=keep, listen=shown)
    except KeyboardInterrupt:
        _interrupted(found, shown)
    finally:
        shown.progress.stop()
    if json_output:
        as_json(result.to_json())
    else:
        _conclude(result, shown.targets)
    raise typer.Exit(result.exit_code)


class _Shown:
    """Print one line per target; on a terminal, also show the current phase."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.targets: set[str] = set()

    def __call__(self, target: str, phase: str, again: TargetAgain | None) -> None:
        if again is None:
            self.progress(target, phase, None)
        elif not self.progress.quiet:
            self.progress.stop()
            self.targets.add(target)
            _line(again)


def _interrupted(found: Project, shown: _Shown) -> NoReturn:
    shown.progress.stop()
    err.print("interrupted: nothing was published, and nothing is left on disk.")
    sys.stderr.flush()
    found.close()
    os._exit(130)  # Spark's threads may hang in a half-done job; nothing of ours is pending


def _line(again: TargetAgain) -> None:
    target, verdict = str(again.target), again.verdict.value
    if again.verdict is Verdict.REUSED:
        out.print(f"{verdict}   {target}   made by run {short(str(again.made_by))}")
        return
    shown = tally(again.result) if again.result else target
    out.print(f"{verdict}   {shown}")
    for reason in again.reasons:
        out.print(f"  {reason}")
    _samples(again.details or {})


def _samples(details: Mapping[str, Any]) -> None:
    rows = (details.get("rows") or {}).get("difference") or {}
    for row in rows.get("rows", ()):
        out.print(f"    {differing(row, '{} then, {} now')}")
    rejections = details.get("rejections") or {}
    for letter in rejections.get("samples", ())[:5]:
        sign = "+" if letter["copies"] > 0 else "-"
        named = f"{letter['source_key']}   {letter['error_type']}   {letter['morphism_path']}"
        out.print(f"    {sign} {named}   {letter['actual']}")


def _conclude(result: Reproduced, shown: set[str]) -> None:
    for again in result.targets:
        if str(again.target) not in shown:
            _line(again)
    made = [a.result for a in result.targets if a.result is not None]
    sums = f"   {sum(r.records_in for r in made):,} records, {sum(r.rows_out for r in made):,} rows"
    line = f"{result.verdict.value}   {_counts(result)}{sums if made else ''}"
    out.print(f"{line}   run {result.run_id}")
    for reason in result.reasons:
        out.print(f"  {reason}")
    if result.stored_version:
        version = result.stored_version[:8]
        note = f"from the stored plan of pipeline version {version}; the files differ, or are gone"
        out.print(note)
    if not result.sealed:
        out.print(NOT_SEALED)
    for setting in result.not_applied:
        out.print(f"not applied:  {setting}")
    if result.kept:
        out.print(f"kept:  {result.kept}")
    for line in _next(result):
        out.print(line)


def _counts(result: Reproduced) -> str:
    """Write the counts as `2 of 4 targets (1 reused, 1 not compared)`."""
    counts = dict(result.counts)
    every, same = counts.pop("targets"), counts.pop("reproduced")
    rest = ", ".join(f"{number:,} {word.replace('_', ' ')}" for word, number in counts.items())
    return f"{same:,} of {counted(every, 'target')}{f' ({rest})' if rest else ''}"


def _next(result: Reproduced) -> list[str]:
    reused = list(dict.fromkeys(a.made_by for a in result.targets if a.made_by))
    lines = [f"made by an earlier run:  tallyman reproduce {run}" for run in reused[:5]]
    if result.verdict is Verdict.DIFFERENT:
        lines += [CAUSES, *(f"changed since the run:  {one}" for one in result.environment)]
        if not result.kept:
            lines.append(
                f"keep and inspect the new files:  tallyman reproduce {result.run_id} --keep"
            )
    if result.verdict is Verdict.NOT_REPRODUCIBLE and not reused:
        lines.append(f"see what changed:  tallyman verify inputs {result.run_id}")
        if result.commit and any(result.commit in r for a in result.targets for r in a.reasons):
            lines.append(f"get the original code:  git checkout {result.commit}")
    return lines
