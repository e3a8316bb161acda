"""A pipeline as one document: read from JSON or YAML, and written as canonical JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from tallyman.domain.compiled import declared, steps
from tallyman.domain.compiled.declared import SECTIONS, read_items
from tallyman.domain.compiled.kinds import Misshapen, PlanWriting, ToSql
from tallyman.domain.compiled.piece import Json, Notes, Piece
from tallyman.domain.definition.canonical_json import canonical
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.pipeline import Asset, Item, Pipeline, where_of
from tallyman.errors import DefinitionError, Problem

VERSION = 1
"""The version of the form; a document of another version is refused."""
LARGEST = 10_000_000
"""The most bytes of a document."""

# ---- writing ---------------------------------------------------------------------------------


def only_text(given: object, where: str, *, named: bool) -> str:
    """Take SQL text and refuse anything else."""
    if isinstance(given, str):
        return given
    raise Misshapen(where, f"expected SQL text, found {type(given).__name__}")


def write_item(
    item: Item, plan: Frame | None, to_sql: ToSql = only_text
) -> tuple[str, dict[str, Json]]:
    """Write one declaration, an asset with its plan if there is one; return its section too."""
    return declared.write_item(item, plan, PlanWriting(where_of(item), to_sql))


def write(pipeline: Pipeline) -> dict[str, Json]:
    """Write a pipeline whose expressions are text; DefinitionError lists the mistakes of all
    assets."""
    document: dict[str, Json] = {"tallyman": VERSION, "sources": {}, "tables": {}, "assets": {}}
    problems: list[Problem] = []
    for item in items_of(pipeline):
        try:
            section, value = write_item(
                item, item.written_plan() if isinstance(item, Asset) else None
            )
        except Misshapen as error:
            problems.append(Problem(error.where, error.message))
        except DefinitionError as error:
            problems += error.problems
        else:
            document.setdefault(section, {})[item.name] = value
    if problems:
        raise DefinitionError(problems)
    return document


def items_of(pipeline: Pipeline) -> list[Item]:
    """List everything that the pipeline declares, by kind."""
    first = (*pipeline.sources.values(), *pipeline.tables.values(), *pipeline.shared.values())
    return [*first, *pipeline.assets.values()]


def text_of_document(document: Mapping[str, Json]) -> str:
    """Write the document as bytes are compared: one line, keys in order."""
    text = canonical(document)
    if len(text.encode()) > LARGEST:
        message = f"the compiled form has more than {LARGEST:,} bytes"
        raise DefinitionError([Problem("pipeline", message)])
    return text


# ---- reading ---------------------------------------------------------------------------------


def read(document: Json, file: str | None = None) -> Declarations:
    """Read what a document declares; DefinitionError lists its mistakes, with their paths."""
    root = Piece("", document, Notes(file))
    sections = root.entries((*SECTIONS, "tallyman"))
    version = sections.pop("tallyman", Piece("tallyman", None, root.notes))
    if version.value != VERSION or isinstance(version.value, bool):
        version.fail(f"expected the version of the form, {VERSION}")
    return read_sections(root, sections)


def read_sections(root: Piece, sections: Mapping[str, Piece]) -> Declarations:
    """Read what sections declare, in their order; DefinitionError lists all mistakes."""
    found = Declarations()
    for section, whole in sections.items():
        for name, piece in whole.entries().items():
            for item in read_items(section, name, piece):
                found.append(item)
                if file := root.notes.file:
                    found.place(where_of(item), file, getattr(piece.value, "line", 1))
    if root.notes.problems:
        raise DefinitionError(root.notes.problems)
    return found


def read_text(text: str | bytes, file: str | None = None) -> Declarations:
    """Read a document from its text."""
    where = file or "pipeline"
    try:
        if len(text) > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise DefinitionError([Problem(where, "it is nested too deeply", file=file)]) from None
    except json.JSONDecodeError as error:
        problem = Problem(f"{where}:{error.lineno}", error.msg, file=file, line=error.lineno)
        raise DefinitionError([problem]) from None
    except ValueError as error:
        message = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise DefinitionError([Problem(where, message, file=file)]) from None
    return read(document, file)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# ---- schema ----------------------------------------------------------------------------------


def json_schema() -> dict[str, Json]:
    """Describe the document as a JSON Schema."""
    sections = {
        section: {"type": "object", "additionalProperties": schema}
        for section, schema in declared.schemas().items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Tallyman pipeline, compiled form {VERSION}",
        "type": "object",
        "properties": {"tallyman": {"const": VERSION}, **sections},
        "required": ["tallyman"],
        "additionalProperties": False,
        "$defs": steps.schemas(),
    }
