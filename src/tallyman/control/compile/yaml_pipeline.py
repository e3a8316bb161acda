"""Pipelines in YAML: the form of compiled JSON, with selectors and shorter spellings."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tallyman.control.compile.yaml_loader import read
from tallyman.domain.compiled.declared import SECTIONS
from tallyman.domain.compiled.form import read_sections
from tallyman.domain.compiled.piece import SELECTOR, Notes, Piece
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.errors import DefinitionError


def declared_in(path: Path) -> Declarations:
    """Read what a file declares, in its order, or raise DefinitionError with all its mistakes."""
    file = f"{path.parent.name}/{path.name}"
    value, problems = read(file, path.read_bytes())
    selectors: dict[str, str | None] = {}
    root = Piece("", value, Notes(file, problems, selectors))
    if value is None and problems:
        raise DefinitionError(problems)
    sections = dict[str, Piece]() if value is None else root.entries((*SECTIONS, "selectors"))
    if "selectors" in sections:
        _read_selectors(sections.pop("selectors").entries(), selectors)
    return read_sections(root, sections)


def _read_selectors(pieces: Mapping[str, Piece], selectors: dict[str, str | None]) -> None:
    """Read selectors in dependency order; a cycle is a mistake."""
    uses = {
        name: [other for other in _named_in(piece) if other in pieces]
        for name, piece in pieces.items()
    }
    while circle := _circle(uses):
        pieces[circle[0]].fail(f"cycle: {' → '.join(circle)}")
        selectors |= dict.fromkeys(circle)
        uses |= {name: [] for name in circle}
    for name in TopologicalSorter(uses).static_order():
        if name not in selectors:
            written = pieces[name].expression()
            selectors[name] = None if written is None else _bracketed(written)


def _named_in(piece: Piece) -> list[str]:
    return SELECTOR.findall(piece.value) if isinstance(piece.value, str) else []


def _circle(uses: Mapping[str, list[str]]) -> list[str]:
    """Return a cycle of names, each using the next; empty if there is none."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def _bracketed(written: str) -> str:
    # Break the line: a comment at the end must not swallow the parenthesis.
    return f"({written}\n)" if "--" in written else f"({written})"
