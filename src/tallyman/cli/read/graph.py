"""`tallyman graph`: draw which asset reads what, as text, Mermaid or JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out
from tallyman.domain.pipeline.graph import ascii_graph, edges, kind_of, mermaid, nodes
from tallyman.domain.pipeline.selection import select


def graph(
    selection: Annotated[
        list[str] | None,
        typer.Argument(
            help="Draw only these assets and what they read: x, +x, x+, +x+, tag:t. Default: all."
        ),
    ] = None,
    as_mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid diagram, for Markdown pages.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Draw which asset reads what."""
    pipeline = opened(project).pipeline
    chosen = select(pipeline, selection) if selection else None
    if json_output:
        as_json(
            {
                "nodes": [
                    {"name": name, "kind": kind_of(pipeline, name)}
                    for name in nodes(pipeline, chosen)
                ],
                "edges": [{"from": read, "to": name} for read, name in edges(pipeline, chosen)],
            }
        )
        return
    draw = mermaid if as_mermaid else ascii_graph
    out.print(draw(pipeline, chosen))
