"""`report`: all that can be told of a run, for a person to read, keep or print."""

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
        bool, typer.Option("--html", help="One page that needs nothing else, for screen and paper.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Where to write it; '-' is stdout. Default: report-RUN.html."
        ),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """All about a run: where each record went, why, how long it took, and what proves it.

    tallyman report latest             to read here

    tallyman report latest --html      to keep: writes report-RUN.html into this folder
    """
    found = opened(project)
    told = found.report(run)
    if json_output and not html and output is None:
        as_json(told.to_json())
        return
    text = page(told) if html else "\n".join(lines(told)) + "\n"
    if output == "-" or (output is None and not html):
        sys.stdout.write(text)
        return
    target = Path(output or f"report-{_name(told)}.html").absolute()
    if target.resolve().is_relative_to(found.settings.runs_folder.resolve()):
        raise UsageError(f"{target}: run folders are sealed; write the report somewhere else")
    _write(target, text)
    if json_output:
        as_json({"run_id": told.head["run_id"], "file": str(target), "bytes": len(text.encode())})
    else:
        out.print(f"wrote {target}", markup=False)


def _name(told: Report) -> str:
    """A run that was copied here may call itself anything."""
    name = str(told.head["run_id"])
    return short(name) if RUN_ID.fullmatch(name) and set(name) != {"."} else "run"


def _write(target: Path, text: str) -> None:
    """All of it or nothing: the page of before stays until the new one is whole."""
    aside = target.with_name(f".{target.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(report)
