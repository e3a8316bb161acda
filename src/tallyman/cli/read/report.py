"""`tallyman report`: write the full report of a run, as text or HTML."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tallyman.cli.read.report_text import lines
from tallyman.cli.terminal.options import AsJson, ProjectFolder, RunName, opened
from tallyman.cli.terminal.output import as_json, out, short
from tallyman.domain.history.run import RUN_ID
from tallyman.errors import UsageError
from tallyman.pages.report import page
from tallyman.query.report.run import Report


def report(
    run: RunName = "latest",
    html: Annotated[
        bool,
        typer.Option("--html", help="Write one self-contained HTML page, also fit for printing."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the report to this file; '-' is stdout. Default: report-RUN.html.",
        ),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Write the full report of a run, as text or an HTML page.

    The report shows where each record went and why, how long the run took, and the proof.

    tallyman report latest             print the report here

    tallyman report latest --html      write report-RUN.html into this folder
    """
    found = opened(project)
    made = found.report(run)
    if json_output and not html and output is None:
        as_json(made.to_json())
        return
    text = page(made) if html else "\n".join(lines(made)) + "\n"
    if output == "-" or (output is None and not html):
        sys.stdout.write(text)
        return
    target = Path(output or f"report-{_name(made)}.html").absolute()
    if target.resolve().is_relative_to(found.settings.runs_folder.resolve()):
        raise UsageError(f"{target}: run folders are sealed; write the report somewhere else")
    _write(target, text)
    if json_output:
        as_json({"run_id": made.head["run_id"], "file": str(target), "bytes": len(text.encode())})
    else:
        out.print(f"wrote {target}")


def _name(made: Report) -> str:
    """Return the run id for the file name, or `run`: the id of a run copied from elsewhere is not
    trusted."""
    name = str(made.head["run_id"])
    return short(name) if RUN_ID.fullmatch(name) and set(name) != {"."} else "run"


def _write(target: Path, text: str) -> None:
    """Write the file atomically: the old page stays until the new one is complete."""
    unfinished = target.with_name(f".{target.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
