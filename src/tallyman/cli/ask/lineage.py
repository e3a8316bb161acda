"""`tallyman lineage`: list what a result was made from, and what was made from it."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.ask import lineage_events
from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, table
from tallyman.domain.codec import to_plain
from tallyman.domain.history.lineage import Granularity, Reached

lineage = typer.Typer(
    help="List what results were made from, and what depends on them.",
    no_args_is_help=True,
)
COLUMNS = ("depth", "asset", "partition", "kind", "status")

AssetName = Annotated[str, typer.Argument(help="An asset. `down` and `impact` also take a source.")]
OnePartition = Annotated[
    str | None,
    typer.Option("--partition", help="Only this partition, for example d:2025-01-01."),
]


@lineage.command(epilog="Example:  tallyman lineage up daily_revenue --partition d:2025-01-01")
def up(
    asset: AssetName,
    partition: OnePartition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List what the newest result was made from, back to the sources.

    Depth 1 lists the inputs that the result read directly, in the versions that it read. Without
    --partition, start at the newest result of any partition.
    """
    found = opened(project).lineage("up", asset, partition=partition)
    _show(found, f"{asset} has no inputs", json_output)


@lineage.command(epilog="Example:  tallyman lineage down bookings --json")
def down(
    asset: AssetName,
    partition: OnePartition = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List everything that was made from an asset or a source.

    Only successful results count. Without --partition, start from all partitions.
    """
    found = opened(project).lineage("down", asset, partition=partition)
    _show(found, f"nothing has been made from {asset} yet", json_output)


@lineage.command(
    epilog="Example:  tallyman lineage impact bookings --partition d:2025-01-01 --granularity asset"
)
def impact(
    asset: AssetName,
    partition: OnePartition = None,
    granularity: Annotated[
        Granularity,
        typer.Option(
            help="partition: list what read exactly this partition. asset: list every partition "
            "of every asset that has read any part of it."
        ),
    ] = "partition",
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List what to make again when an asset or a source changes.

    The status is that of the latest attempt, successful or not.
    """
    found = opened(project).lineage("impact", asset, partition=partition, granularity=granularity)
    _show(found, f"a change of {asset} affects no result", json_output)


def _show(found: list[Reached], nothing: str, json_output: bool) -> None:
    rows = to_plain(found)
    if json_output:
        as_json(rows)
    elif rows:
        elsewhere = any(reached.pipeline for reached in found)
        table(rows, (*COLUMNS, "pipeline") if elsewhere else COLUMNS)
    else:
        out.print(nothing, markup=False)


lineage_events.register(lineage)
