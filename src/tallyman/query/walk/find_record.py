"""Find the records of a `where` question in the files of their source."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from tallyman.domain.history.asked_row import said
from tallyman.domain.history.walk import Record
from tallyman.domain.pipeline.target import source_path
from tallyman.engine.files.listing import list_files
from tallyman.engine.readback.key_text import KeyShape
from tallyman.engine.readback.open import OpenRecords
from tallyman.engine.readback.records import Records, typed
from tallyman.engine.readback.session import DuckSession
from tallyman.errors import NotFound, UsageError
from tallyman.errors.wording import nearest
from tallyman.query.walk.results import Past
from tallyman.query.walk.why import MORE, RowQuestion, check_columns

PLACE = "@"
"""The name under which a record without a key is identified by its place."""


@dataclass(frozen=True)
class Followed:
    """Records of one input: a table `k` of keys, and `hits` if the records can be read."""

    name: str
    keys: str
    shape: KeyShape | None
    records: Records | None = None
    hits: str | None = None
    dataset: UUID | None = None
    """The dataset, if the records are rows of one: a reader may give it another name."""


@dataclass(frozen=True, slots=True)
class RecordSearch:
    past: Past
    duck: DuckSession
    opened_records: OpenRecords
    asked: RowQuestion

    def records(self, name: str) -> tuple[Followed, int, list[Record]]:
        """Find the records in the source's files, or by key alone if the files no longer contain
        them."""
        sources = self.past.workspace.pipeline.sources
        if name not in sources:
            raise NotFound("source", name, nearest(name, sources))
        source, home = sources[name], self.past.workspace.home
        files = list_files(name, source_path(source, None), home)
        records = self.opened_records.source(source, files)
        hits = self._hits(records)
        count = self.duck.count(hits)
        self._check_count(count, records)
        keys = hits if count else self._said(records)
        below = os.path.relpath(files.root, home)
        shown = [
            replace(one, file=os.path.normpath(os.path.join(below, one.file or "")))
            for one in map(self._seen(records), records.shown(hits, self.asked.limit))
        ]
        shape = records.shape if source.key else None
        return Followed(name, keys, shape, records, hits), count, shown

    def _seen(self, records: Records) -> Callable[[Record], Record]:
        return lambda one: self.past.shown(one, records.key)

    def _hits(self, records: Records) -> str:
        if PLACE in self.asked.row:
            return records.at_place(str(self.asked.row[PLACE]))
        check_columns(records, self.asked.row, f"source {records.name}")
        return records.matching(self.asked.row)

    def _check_count(self, count: int, records: Records) -> None:
        limit = self.asked.limit
        if limit is not None and count > limit:
            others = [n for n in records.key or records.types if n not in self.asked.row]
            records_have = "record has" if count == 1 else "records have"
            raise UsageError(
                f"{count:,} {records_have} {said(self.asked.row)} in {records.name}, more than "
                f"{limit}: add {', '.join(f'{name}=…' for name in others[:4])}, or {MORE}"
            )

    def _said(self, records: Records) -> str:
        """Build the key from the given values, if they cover the whole key."""
        row = self.asked.row
        if PLACE in row:
            return self.duck.keep("SELECT $k AS k", {"k": row[PLACE]})
        if not row or set(row) != set(records.key):
            return self.duck.keep("SELECT NULL::VARCHAR AS k WHERE false")
        values = [
            typed(row[name], kind)
            for name, kind in zip(records.shape.names, records.shape.types, strict=True)
        ]
        return self.duck.keep(f"SELECT {records.shape.text_of(values)} AS k")
