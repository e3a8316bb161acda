"""The groups in evidence of keys, each once, collected from batches of records."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.files import parquet
from tallyman.engine.segment.group_key import WHOLE
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.engine.spark.spark_text import NoSparkText, group_text, has_text, texts

MANY = 100_000
"""Groups of batches are merged from here on; each merge costs as much as the groups known."""


class DistinctGroups:
    """Groups by their values. Texts are made once for each group, not for each batch it is in."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._known: list[pa.Table] = []
        self._rows = 0
        self.merged = 0
        """The number of groups when they were last merged: there are at least as many."""

    def add(self, group: pa.StructArray) -> None:
        """Add the groups of a batch; NoSparkText if only Spark writes their text."""
        if not all(has_text(field.type) for field in group.type):
            raise NoSparkText(str(group.type))
        self._names = [field.name for field in group.type if field.name != WHOLE]
        columns = [group.field(n) for n in range(group.type.num_fields)]
        found = _once(pa.table(columns, names=[f"c{n}" for n in range(len(columns))]))
        self._known.append(found)
        self._rows += found.num_rows
        if self._rows > MANY + 2 * self.merged:
            self._merge()

    def _merge(self) -> None:
        if len(self._known) > 1:
            self._known = [_once(pa.concat_tables(self._known))]
        self._rows = self.merged = sum(one.num_rows for one in self._known)

    def __len__(self) -> int:
        self._merge()
        return self._rows

    def digest(self) -> KeyDigest:
        """Digest the key of each group, piece by piece: all texts at once would take more memory
        than anything else here. Values that differ have texts that differ.
        """
        self._merge()
        if not self._known:
            return KeyDigest()
        [table] = self._known
        pieces = (self._texts(piece) for piece in table.to_batches(parquet.BATCH))
        return sum(map(digest_of, pieces), KeyDigest())

    def _texts(self, rows: pa.RecordBatch) -> list[str]:
        return joined(self._names, rows.columns[: len(self._names)], rows.num_rows)


def _once(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([])


def joined(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> list[str]:
    """Compute the key of each row's group from its columns."""
    if not names:
        return ["{}"] * rows
    return [group_text(names, row) for row in zip(*map(texts, columns), strict=True)]
