"""The result of compiling pipeline files, as the child process hands it over: JSON, no objects.

The reader trusts none of it: user code ran in the process that wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.compiled import form
from tallyman.domain.compiled.compiled_plan import CompiledPlan, MistakenPlan
from tallyman.domain.compiled.declared import SECTIONS, read_items
from tallyman.domain.compiled.piece import Notes, Piece
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.pipeline import Asset, Item, Pipeline
from tallyman.errors import DefinitionError, Problem


@dataclass(frozen=True, slots=True)
class CompiledItem:
    """One declaration in the compiled form; an asset with mistakes has those instead of a plan."""

    section: str
    name: str
    value: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    """Everything the files of a folder declare, and what is wrong with those that declare
    nothing."""

    items: tuple[CompiledItem, ...] = ()
    problems: tuple[Problem, ...] = ()
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """File and line of each declaration."""

    def to_json(self) -> str:
        return json.dumps(to_plain(self))

    @classmethod
    def of_json(cls, text: str | bytes) -> Handover:
        """Read what a child wrote; ValueError if it is something else."""
        try:
            return of_plain(cls, json.loads(text))
        except RecursionError as error:
            raise ValueError(str(error)) from None

    def declared(self) -> tuple[Declarations, list[Problem]]:
        """Read the declarations back, and list the mistakes of what declares nothing."""
        declared, problems = Declarations(), list(self.problems)
        if sum(len(json.dumps(item.value)) for item in self.items) > form.LARGEST:
            message = f"the compiled form has more than {form.LARGEST:,} bytes"
            return declared, [*problems, Problem("pipeline", message)]
        notes = Notes(problems=problems)
        for item in self.items:
            declared += _read(item, notes)
        declared.places |= self.places
        return declared, problems

    def pipeline(self) -> Pipeline:
        """Wire the declarations; DefinitionError lists the mistakes."""
        declared, problems = self.declared()
        if problems:
            raise DefinitionError(problems)
        return Pipeline.of(declared)

    def text(self) -> str:
        """Return the compiled form; DefinitionError lists every mistake."""
        return form.text_of_document(form.write(self.pipeline()))


def _read(item: CompiledItem, notes: Notes) -> list[Item]:
    piece = Piece(f"{item.section}.{item.name}", item.value, notes)
    if item.section not in SECTIONS:
        piece.fail("unknown section")
        return []
    if item.problems:
        return read_items(item.section, item.name, piece, MistakenPlan(item.problems))
    found = read_items(item.section, item.name, piece)
    return [
        replace(each, function=replace(each.function, code=item.code))
        if isinstance(each, Asset) and isinstance(each.function, CompiledPlan)
        else each
        for each in found
    ]
