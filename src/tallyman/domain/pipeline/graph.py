"""The graph of a pipeline as a drawing: text for a terminal, Mermaid for pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tallyman.domain.pipeline.pipeline import Pipeline

_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_KEYWORDS = frozenset(
    {"call", "class", "classdef", "click", "default", "direction", "end"}
    | {"flowchart", "graph", "href", "linkstyle", "style", "subgraph"}
)
"""Words with a meaning in Mermaid, even inside a label without quotes."""


def edges(pipeline: Pipeline, chosen: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """List (input, asset that reads it) for the chosen assets, or for all."""
    return [
        (read, name)
        for name in pipeline.order()
        if chosen is None or name in chosen
        for read in pipeline.assets[name].inputs
    ]


def nodes(pipeline: Pipeline, chosen: Sequence[str] | None = None) -> list[str]:
    """List sources and tables, then assets in order; of a choice, also its direct inputs."""
    every = [*pipeline.sources, *pipeline.tables, *pipeline.shared, *pipeline.order()]
    if chosen is None:
        return every
    drawn = {*chosen, *(read for read, _ in edges(pipeline, chosen))}
    return [name for name in every if name in drawn]


def ascii_graph(pipeline: Pipeline, chosen: Sequence[str] | None = None) -> str:
    """Draw one line per node, with its inputs after an arrow."""
    read_by: dict[str, list[str]] = {}
    for read, name in edges(pipeline, chosen):
        read_by.setdefault(name, []).append(_marked(pipeline, read))
    names = nodes(pipeline, chosen)
    width = max((len(name) for name in read_by), default=0)
    return "\n".join(
        f"{name:<{width}}  <-  {', '.join(read_by[name])}"
        if name in read_by
        else _marked(pipeline, name)
        for name in names
    )


def mermaid(pipeline: Pipeline, chosen: Sequence[str] | None = None) -> str:
    # Ids are numbers, so that any name is only a label.
    ids = {name: f"n{number}" for number, name in enumerate(nodes(pipeline, chosen), 1)}
    lines = ["graph LR"]
    for name, own in ids.items():
        label = _label(name)
        made = name in pipeline.assets
        lines.append(f"    {own}[{label}]" if made else f"    {own}[({label})]")
    lines += [f"    {ids[read]} --> {ids[name]}" for read, name in edges(pipeline, chosen)]
    return "\n".join(lines)


def _marked(pipeline: Pipeline, name: str) -> str:
    kind = kind_of(pipeline, name)
    return name if kind == "asset" else f"{name} ({kind})"


def kind_of(pipeline: Pipeline, name: str) -> str:
    if name in pipeline.sources:
        return "source"
    if name in pipeline.shared:
        return "dataset"
    return "table" if name in pipeline.tables else "asset"


def _label(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    kept = (c if c.isalnum() or c in " ._-" else f"#{ord(c)};" for c in name)
    return f'"{"".join(kept)}"'
