"""Find the records of a `where` question in the files of their source."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from uuid import UUID

from tallyman.domain.history.asked_row import AskedRow, said
from tallyman.domain.history.walk import Record
from tallyman.domain.pipeline.target import source_path
from tallyman.engine.files.listing import list_files
from tallyman.engine.readback.key_text import KeyShape
from tallyman.engine.readback.records import Records, typed
from tallyman.engine.readback.session import DuckSession
from tallyman.errors import NotFound
from tallyman.errors.wording import nearest
from tallyman.query.walk.why import Walk, check_columns, path_below

PLACE = "@"
"""The name under which a record without a key is identified by its place."""


@dataclass(frozen=True)
class Followed:
    """Records of one input: a table `k` of keys, and the `hits` among the records."""

    name: str
    keys: str
    shape: KeyShape | None
    records: Records
    hits: str
    dataset: UUID | None = None
    """The dataset, if the records are rows of one: a reader may give it another name."""


def find_record(walk: Walk, name: str) -> tuple[Followed, int, list[Record]]:
    """Find the records in the source's files, or by key alone if the files no longer contain
    them."""
    past, asked = walk.past, walk.asked
    sources, home = past.workspace.pipeline.sources, past.workspace.home
    if name not in sources:
        raise NotFound("source", name, nearest(name, sources))
    source = sources[name]
    files = list_files(name, source_path(source, None), home)
    records = walk.opened_records.source(source, files)
    hits = _hits(asked.row, records)
    count = walk.duck.count(hits)
    have = "record has" if count == 1 else "records have"
    what = f"{count:,} {have} {said(asked.row)} in {name}"
    walk.check_limit(count, what, records.key or records.types)
    below = os.path.relpath(files.root, home)
    shown = [
        replace(one, file=path_below(below, one.file))
        for one in walk.seen(records, hits, asked.limit)
    ]
    keys = hits if count else _said(walk.duck, asked.row, records)
    shape = records.shape if source.key else None
    return Followed(name, keys, shape, records, hits), count, shown


def _hits(row: AskedRow, records: Records) -> str:
    if PLACE in row:
        return records.at_place(str(row[PLACE]))
    check_columns(records, row, f"source {records.name}")
    return records.matching(row)


def _said(duck: DuckSession, row: AskedRow, records: Records) -> str:
    """Build the key from the given values, if they cover the whole key."""
    if PLACE in row:
        return duck.keep("SELECT $k AS k", {"k": row[PLACE]})
    if not row or set(row) != set(records.key):
        return duck.keep("SELECT NULL::VARCHAR AS k WHERE false")
    values = [
        typed(row[name], kind)
        for name, kind in zip(records.shape.names, records.shape.types, strict=True)
    ]
    return duck.keep(f"SELECT {records.shape.text_of(values)} AS k")
