"""`tallyman breakers`: list and close circuit breakers."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import answer, listed, short
from tallyman.errors import NotFound

breakers = typer.Typer(
    help="List open circuit breakers, and close them.", invoke_without_command=True
)


@breakers.callback()
def breakers_list(
    context: typer.Context, project: ProjectFolder = None, json_output: AsJson = False
) -> None:
    """List open circuit breakers, and close them.

    A breaker opens when too many of the first records of an input cannot be read. An asset with
    thresholds on_break=hold is then not made again until somebody closes its breaker.
    """
    if context.invoked_subcommand is not None:
        return
    rows = [
        {
            "asset": one.asset,
            "partition": one.partition,
            "since": f"{one.since:%Y-%m-%dT%H:%M:%SZ}",
            "run_id": one.run,
            "run": short(one.run),
            "reason": one.reason.split("\n")[0],
        }
        for one in opened(project).runs.open_breakers()
    ]
    names = ("asset", "partition", "since", "run", "reason")
    listed(rows, names, "no breaker is open", json_output)


@breakers.command("close")
def breakers_close(
    asset: Annotated[str, typer.Argument(help="The asset whose breaker to close.")],
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why it may run again, for the audit log.")
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Close the breaker of an asset, so that the next run makes it again."""
    count = opened(project).runs.close_breaker(asset, reason=reason)
    if not count:
        raise NotFound("open breaker of", asset)
    text = f"closed; make it again:  tallyman run {asset}"
    answer({"asset": asset, "closed": count}, text, json_output)
