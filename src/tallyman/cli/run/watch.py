"""`tallyman watch`: follow a run that workers or another process make."""

from __future__ import annotations

from tallyman.cli.terminal.options import AsJson, ProjectFolder, RunName, opened
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import show_result


def watch(run: RunName, project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Follow a run that workers or another process make, to its end.

    Prints what `tallyman run` prints, and ends with the same exit code. Ctrl-C ends the watching
    only: `tallyman cancel` stops the run.
    """
    found = opened(project)
    result = supervised(found, json_output, lambda progress: found.watch(run, listen=progress))
    show_result(result, json_output)
