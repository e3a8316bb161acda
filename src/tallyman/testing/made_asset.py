"""An asset as a test made it: its rows, and what became of every record, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pyarrow import parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.fate import Fate
from tallyman.domain.history.trace import DELETED, ROW_ID, UPDATED_AT, TraceEntry
from tallyman.domain.history.walk import Rejected
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import Target
from tallyman.engine.evidence.proof import Claims
from tallyman.engine.expressions.column_names import KEY, SYSTEM
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.vouched import Vouched
from tallyman.engine.readback.dead_letters import Letters
from tallyman.errors import UsageError
from tallyman.query.arrow_values import rows_of
from tallyman.query.trace.files import TraceFolder
from tallyman.query.trace.read import TraceReader
from tallyman.query.trace.row import TraceRow
from tallyman.testing.row_change import RowChange, compare_trace
from tallyman.testing.spark import session_for_tests

EVERY = 1_000_000
SYSTEM_COLUMNS = (ROW_ID, DELETED, UPDATED_AT)


@dataclass(frozen=True)
class MadeAsset:
    """Everything is read from the files that the run left, until its test ends."""

    name: str
    fates: dict[str, int]
    """How many records met each fate; a fate that no record met is left out."""
    waits_for_approval: bool
    _asset: Asset = field(repr=False)
    _target: Target = field(repr=False)
    _folder: Path = field(repr=False)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Read the output, in the order of the asset's key, else of its columns."""
        files = sorted((self._place / "output").rglob("*.parquet"))
        found = [row for file in files for row in _rows(file)]
        key = self._asset.key
        return sorted(
            found, key=lambda row: ([_order(row[n]) for n in key], *map(_order, row.values()))
        )

    @cached_property
    def rejections(self) -> list[Rejected]:
        """Read the dead letters, in the order of key, error type and rule."""
        with Letters({self.name: self._place}) as letters:
            _, found = letters.listed(
                key=None, hidden=None, kind=None, where=None, only_open=False, limit=EVERY
            )
        return [Rejected.of_letter(row) for row in found]

    @cached_property
    def keys(self) -> dict[str, list[str]]:
        """Read the keys of the records that met each fate, as the evidence names them."""
        ledger = ledger_in(self._place)
        if not ledger.has_keys:
            raise UsageError(
                f'{self.name} has evidence="digest": it keeps no keys of aggregated records'
            )
        with session_for_tests(self._place) as spark:
            claims = Claims(spark, self._place, ledger).by_partition(0)
            claimed = [keys.select(F.lit(part.fate.value), KEY) for part, keys in claims]
            rows = reduce(DataFrame.unionAll, claimed).collect() if claimed else []
        found = {fate.value: sorted(key for met, key in rows if met == fate) for fate in Fate}
        return {fate: keys for fate, keys in found.items() if keys}

    @cached_property
    def trace(self) -> list[RowChange]:
        """Read every change of every row, in the order of steps; none if the asset has no trace."""
        folder = TraceFolder.open(self._target, self._place, self.name, Vouched(self._place))
        if folder is None:
            return []
        reader = TraceReader()
        try:
            files = folder.of_kinds()
            ids = {record.row_id for file in files for record in reader.records([file])}
            histories = [TraceRow(row_id, reader, [folder]).history() for row_id in ids]
        finally:
            reader.close()
        found = [_change(entry) for history in histories for entry in history]
        return sorted(found, key=lambda c: (c.step, [_order(v) for v in c.row.values()]))

    def expect_trace(self, expected: Iterable[RowChange]) -> None:
        """Compare the whole trace with these changes, in any order; AssertionError lists every
        missing_event, extra_event and diff_mismatch."""
        mismatches = compare_trace(self.trace, expected)
        if mismatches:
            listed = "\n".join(f"  {one}" for one in mismatches)
            raise AssertionError(
                f"{self.name}: the trace has {len(mismatches)} mismatches\n{listed}"
            )

    @property
    def _place(self) -> Path:
        if not self._folder.is_dir():
            raise UsageError(f"the files of {self.name} went with the test that made it")
        return self._folder


def _rows(file: Path) -> list[dict[str, Any]]:
    with pq.ParquetFile(file) as opened:
        columns = [name for name in opened.schema_arrow.names if name != SYSTEM]
        return [row for batch in opened.iter_batches(columns=columns) for row in rows_of(batch)]


def _change(entry: TraceEntry) -> RowChange:
    row = {name: v for name, v in entry.full_state.items() if name not in SYSTEM_COLUMNS}
    diff = {name: (both["old"], both["new"]) for name, both in entry.diff.items()}
    return RowChange(entry.operation_seq, entry.change_type.value, row, diff)


def _order(value: Any) -> tuple[Any, ...]:
    """Sort NULL first, and what cannot be compared, as lists with NULLs, by how it reads."""
    if value is None:
        return (0,)
    return (2, repr(value)) if isinstance(value, (dict, list)) else (1, value)
