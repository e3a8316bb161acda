"""The compiled form as a whole: a document with a version, from a pipeline and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from tallyman.domain.compiled.declared import (
    ASSET_KINDS,
    ASSET_REQUIRED,
    SHARED,
    SOURCE,
    TABLE,
    TABLE_REQUIRED,
    read_asset,
    read_shared,
    read_source,
    read_table,
    write_asset,
    write_shared,
    write_source,
    write_table,
)
from tallyman.domain.compiled.kinds import (
    FormWriting,
    Json,
    Misshapen,
    ToSql,
    expected,
    object_schema,
)
from tallyman.domain.compiled.steps import MOST_STEPS, plan_schema
from tallyman.domain.definition.canonical_json import canonical
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames
from tallyman.domain.pipeline.declarations import Declarations
from tallyman.domain.pipeline.pipeline import Asset, Item, Pipeline, SharedDataset, Source
from tallyman.domain.version.table import Table
from tallyman.errors import DefinitionError, Problem
from tallyman.errors.wording import nearest

VERSION = 1
"""The version of the form; a document of another version is refused."""
LARGEST = 10_000_000
"""The most bytes of a document."""
SECTIONS = ("assets", "datasets", "sources", "tables")


def only_text(given: object, where: str, *, named: bool) -> str:
    """Take SQL text and refuse anything else."""
    if isinstance(given, str):
        return given
    raise Misshapen(where, f"expected SQL text, found {type(given).__name__}")


def write_item(
    item: Item, plan: Frame | None, to_sql: ToSql = only_text
) -> tuple[str, dict[str, Json]]:
    """Write one declaration, an asset with its plan if there is one; return its section too."""
    match item:
        case Source():
            return "sources", write_source(item, FormWriting(f"source {item.name}", to_sql))
        case Table():
            return "tables", write_table(item, FormWriting(f"table {item.name}", to_sql))
        case SharedDataset():
            return "datasets", write_shared(item)
        case Asset():
            return "assets", write_asset(item, plan, FormWriting(f"asset {item.name}", to_sql))


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

READERS: Mapping[str, Callable[[str, Json, str], Item]] = {
    "sources": read_source,
    "tables": read_table,
    "datasets": read_shared,
    "assets": read_asset,
}


def read_item(section: str, name: str, value: Json) -> Item:
    """Read one declaration; Misshapen has its path."""
    where = f"{section}.{name}"
    item = READERS[section](name, value, where)
    _check_size(item, where)
    return item


def read(document: Json, file: str | None = None) -> Declarations:
    """Read what a document declares; DefinitionError lists its mistakes, with their paths."""
    problems: list[Problem] = []
    found = Declarations()

    def note(error: Misshapen) -> None:
        where = f"{file}: {error.where}".removesuffix(": ") if file else error.where or "pipeline"
        problems.append(Problem(where, error.message, error.nearest, file))

    try:
        sections = _sections(document)
    except Misshapen as error:
        note(error)
        sections = dict[str, Json]()
    for section, name, value in _items(sections):
        where = f"{section}.{name}"
        try:
            item = read_item(section, name, value)
        except Misshapen as error:
            note(error)
        except RecursionError:
            note(Misshapen(where, "it is nested too deeply"))
        else:
            found.append(item)
            if file:
                found.place(f"{section.removesuffix('s')} {name}", file, 1)
    if problems:
        raise DefinitionError(problems)
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


def _sections(document: Json) -> dict[str, Json]:
    if not isinstance(document, dict):
        raise expected("an object", document, "")
    version = document.get("tallyman")
    if version != VERSION or isinstance(version, bool):
        raise Misshapen("tallyman", f"expected the version of the form, {VERSION}")
    for name in document:
        if name not in (*SECTIONS, "tallyman"):
            raise Misshapen(str(name), "unknown key", nearest(str(name), SECTIONS))
    for name in SECTIONS:
        if not isinstance(document.get(name, {}), dict):
            raise expected("names and declarations", document[name], name)
    return document


def _items(document: Mapping[str, Json]) -> Iterable[tuple[str, str, Json]]:
    for section in READERS:
        for name, value in document.get(section, {}).items():
            yield section, name, value


def _check_size(item: Item, where: str) -> None:
    if isinstance(item, Asset):
        count = sum(1 for frame in frames(item.plan()) for _ in frame.steps())
        if count > MOST_STEPS:
            raise Misshapen(where, f"it has more than {MOST_STEPS} steps; make it several assets")


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

    def named(schema: Json) -> dict[str, Json]:
        return {"type": "object", "additionalProperties": schema}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Tallyman pipeline, compiled form {VERSION}",
        "type": "object",
        "properties": {
            "tallyman": {"const": VERSION},
            "sources": named(SOURCE.schema()),
            "tables": named(object_schema(TABLE, TABLE_REQUIRED)),
            "datasets": named(object_schema(SHARED, ())),
            "assets": named(object_schema(ASSET_KINDS, ASSET_REQUIRED)),
        },
        "required": ["tallyman"],
        "additionalProperties": False,
        "$defs": {"plan": plan_schema()},
    }
