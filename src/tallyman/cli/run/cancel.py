"""`tallyman cancel`: stop a run, or give up one that failed."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, RunName, opened
from tallyman.cli.terminal.output import answer


def cancel(
    run: RunName,
    timeout: Annotated[
        float,
        typer.Option(help="Seconds to wait for the process before the run is canceled by force."),
    ] = 30,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Stop a run, or give up one that failed or was killed.

    Its trace is discarded, and so are unpublished results that have one. Other finished results
    stay; `tallyman resume` continues.
    """
    found = opened(project)
    record = found.find_run(run)
    status = found.cancel(record.name, timeout_s=timeout)
    facts = {"run_id": record.name, "status": status.value}
    answer(facts, f"run {record.name}: {status.value}", json_output)
