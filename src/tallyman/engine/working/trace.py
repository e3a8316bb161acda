"""Keeping the trace: files that were written with the rows, moved to their place step by step. What
they must contain is counted on the rows themselves.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman import faults
from tallyman.domain.account.ledger import Check, KeyDigest
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.evidence.kept_by_spark import output_key
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, SYSTEM
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files import parquet
from tallyman.engine.files.durable import sync
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.observer import Observer
from tallyman.engine.segment.ended import at
from tallyman.engine.segment.stage import Stage
from tallyman.engine.spark import digest
from tallyman.engine.working.changes import Member
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.trace_layout import FORMAT, STEPS, TraceLayout, mark
from tallyman.engine.working.trace_rows import marks
from tallyman.errors import TraceWriteFailure
from tallyman.faults import Point

ID = "_tm_id"
HALF = 31
LOW = (1 << HALF) - 1
Values = pa.ChunkedArray

NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The trace of the rows of one member in one segment: each touched row once, with its id and
    marks. `number` is the place of the member among those of the segment.
    """

    seqs: tuple[int, ...]
    number: int
    member: Member
    stage: Stage
    layout: TraceLayout

    @property
    def what(self) -> str:
        first, last = self.seqs[0], self.seqs[-1]
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        return f"trace of {steps}, rows of member {self.number}"

    @property
    def is_output(self) -> bool:
        """True if the live rows of the segment are the output, and were moved to its place."""
        return self.layout.row.startswith(f"{SYSTEM}.")


@dataclass
class Tracer:
    """The trace of one target. `place` is the folder that readers will use."""

    ids: RowIds
    place: Path
    scratch: Path
    pool: ThreadPoolExecutor
    observer: Observer
    redaction: Redaction
    _expected: list[ExpectedRows] = field(default_factory=list)

    def begin(self, loaded: StructType, steps: Sequence[Mapping[str, object]]) -> None:
        """Write the list of steps. Later questions about a step use it, even if the pipeline
        changes.
        """
        self.place.mkdir(parents=True)
        content = {
            "format": FORMAT,
            "run_id": self.ids.run.run_id,
            "openlineage_run_id": self.ids.run.openlineage_run_id,
            "asset": self.ids.asset,
            "partition": self.ids.partition,
            "timestamp": self.ids.run.timestamp,
            "loaded": [{"name": f.name, "type": f.dataType.simpleString()} for f in loaded],
            "steps": list(steps),
            "redacted": sorted(self.redaction.columns),
        }
        write_json(self.place / STEPS, content)

    def segment(self, seqs: Sequence[int], members: Iterable[Member] = ()) -> None:
        """Keep what the steps of a segment did to the rows just written, and commit each step. The
        folder of the first step has the files of all.
        """
        written = [m for m in members if m.stages and m.layout is not None]
        for n, seq in enumerate(seqs):
            self._commit(seq, () if n else written)
        for number, member in enumerate(written):
            assert member.layout is not None
            stage = member.stages[-1]
            self._expected.append(ExpectedRows(tuple(seqs), number, member, stage, member.layout))

    # ---- a step is complete when its folder exists ----------------------------------------

    def _commit(self, seq: int, members: Sequence[Member]) -> None:
        aside = self.scratch / "trace" / f"step-{seq}"
        try:
            aside.mkdir(parents=True)
            files = [file for n, m in enumerate(members) for file in _gather(m, n, aside)]
            sync(*files)
            faults.reach(Point.TRACE_STEP)
            target = self.place / f"operation_seq={seq}"
            os.rename(aside, target)
            sync(target)
        except OSError as error:
            reason = self.redaction.reason(error, 300)
            raise TraceWriteFailure(self.ids.asset, seq, reason) from error
        self.observer.step(str(seq))

    # ---- a witness ------------------------------------------------------------------------

    def checks(self, kept: Kept) -> Iterator[Check]:
        """Compare the files of the trace with the rows they were written with."""
        wanted = [self.pool.submit(self._wanted, one, kept) for one in self._expected]
        for one, counted in zip(self._expected, wanted, strict=True):
            yield Check(what=one.what, expected=counted.result(), found=self._found(one))

    def _wanted(self, one: ExpectedRows, kept: Kept) -> KeyDigest:
        """Digest the rows that were touched, where they are now."""
        rows, words = one.stage.read(), range(one.layout.words)
        key, held = KEY, [F.col(marks(word)) for word in words]
        if one.is_output:
            place = str(kept.folder / "output")
            live = one.stage.spark.read.schema(one.stage.schema).parquet(place)
            # Spark does not find the live rows in the stage any more: they were moved.
            ended = rows.where(F.col(PART) != LIVE).drop(PART)
            rows = live.select(*ended.columns).unionAll(ended)
            key = output_key(one.member.flow.key_columns or ())
            held = [F.col(f"{SYSTEM}.{mark(word)}") for word in words]
        if one.layout.content["created"]:
            rows = rows.where(F.col(PART) == LIVE)
        else:
            rows = rows.where(reduce(Column.__or__, (word > 0 for word in held[1:]), held[0] > 1))
        named = [value.alias(marks(word)) for word, value in enumerate(held)]
        found = rows.select(F.expr(self.ids.low(one.member, key)).alias(ID), *named)
        row = found.agg(*_lanes(F.col(ID), [F.col(marks(word)) for word in words])).first()
        return digest.of_row(row)

    def _found(self, one: ExpectedRows) -> KeyDigest:
        """Digest the files of the trace: sums of two columns, so this process reads them."""
        folder = self.place / f"operation_seq={one.seqs[0]}"
        files = sorted(folder.glob(f"rows-{one.number:02d}-*.parquet"))
        found = KeyDigest()
        for batch in parquet.batches(files, [one.layout.id, *one.layout.marks]):
            rows = pa.Table.from_batches([batch])
            found += _digest(at(rows, one.layout.id), [at(rows, m) for m in one.layout.marks])
        return found


def _gather(member: Member, number: int, target: Path) -> list[Path]:
    """Give the files of a member's trace a second name; the segment may be needed for a resume."""
    files: list[Path] = []
    for n, file in enumerate(member.stages[-1].trace_files()):
        files.append(target / f"rows-{number:02d}-{n:05d}.parquet")
        try:
            os.link(file, files[-1])
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            shutil.copyfile(file, files[-1])
    if files:
        assert member.layout is not None
        files.append(target / f"rows-{number:02d}.json")
        files[-1].write_text(json.dumps(member.layout.content, indent=2) + "\n", encoding="utf-8")
    return files


def _lanes(row_id: Column, held: Sequence[Column]) -> list[Column]:
    """Build a count and four sums: the halves of the ids, and the halves of products of ids and
    marks, so that marks of another row make a difference. Sums do not overflow before two billion
    rows.
    """
    halves = [F.shiftright(row_id, HALF), row_id.bitwiseAND(F.lit(LOW))]
    products = [
        halves[(word + place) % 2] * part
        for word, value in enumerate(held)
        for place, part in enumerate((value.bitwiseAND(F.lit(LOW)), F.shiftright(value, HALF)))
    ]
    upper = reduce(Column.__add__, (F.shiftright(product, HALF) for product in products))
    lower = reduce(Column.__add__, (product.bitwiseAND(F.lit(LOW)) for product in products))
    sums = [F.count(F.lit(1)), *map(F.sum, (*halves, upper, lower))]
    return [lane.alias(name) for lane, name in zip(sums, digest.NAMES, strict=True)]


def _digest(row_id: Values, held: Sequence[Values]) -> KeyDigest:
    """Add up the same in this process."""
    halves = [_call("shift_right", row_id, HALF), _call("bit_wise_and", row_id, LOW)]
    upper = lower = 0
    for word, value in enumerate(held):
        parts = (_call("bit_wise_and", value, LOW), _call("shift_right", value, HALF))
        for place, part in enumerate(parts):
            product = _call("multiply", halves[(word + place) % 2], part)
            upper += _sum(_call("shift_right", product, HALF))
            lower += _sum(_call("bit_wise_and", product, LOW))
    high, low = map(_sum, halves)
    return KeyDigest(len(row_id), high, low, upper, lower)


def _call(name: str, values: Values, other: Values | int) -> Values:
    given = pa.scalar(other, pa.int64()) if isinstance(other, int) else other
    return pc.call_function(name, [values, given])


def _sum(values: Values) -> int:
    return int(pc.call_function("sum", [values]).as_py() or 0)
