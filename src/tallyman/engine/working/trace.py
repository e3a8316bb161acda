"""Writing the trace: one folder per step, moved to its place when it is durable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman import faults
from tallyman.domain.history.run import RunIdentity
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.durable import sync
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.observer import Observer
from tallyman.engine.working import changes
from tallyman.engine.working.changes import END, FIRST, Member
from tallyman.engine.working.trace_witness import TraceWitness
from tallyman.errors import RowsNotDistinct, TraceWriteFailure
from tallyman.faults import Point

ROW_ID = "row_id"
STEPS = "steps.json"
OPTIONS: Mapping[str, str] = {
    "compression": "zstd",
    # Sorted ids share a prefix; one question touches one small group of rows.
    "parquet.writer.version": "PARQUET_2_0",
    "parquet.enable.dictionary#row_id": "false",
    "parquet.block.row.count.limit": "20000",
    "parquet.bloom.filter.enabled#row_id": "true",
    "parquet.bloom.filter.expected.ndv#row_id": "20000",
    "parquet.bloom.filter.fpp#row_id": "0.1",
}


@dataclass(frozen=True, slots=True)
class RowIds:
    """Row ids, `_row_id`: UUIDs in the layout of version 7, all bits derived, so a retry gives the
    same.
    """

    run: RunIdentity
    asset: str
    partition: str | None

    def of(self, member: Member, key: Column) -> Column:
        moment = f"{int(self.run.started_at.timestamp() * 1000):012x}"
        begins = f"{moment[:8]}-{moment[8:]}-7{member.ordinal:03x}-"
        scope = "\x1f".join(
            (self.run.openlineage_run_id, self.asset, self.partition or "", str(member.born))
        )
        found = F.sha2(F.concat(F.lit(f"{scope}\x1f"), key), 256)
        first = F.substring(found, 1, 1)
        variant = F.when(first < "4", "8").when(first < "8", "9").when(first < "c", "a")
        variant = variant.otherwise("b")
        rest = [F.substring(found, 2, 3), F.lit("-"), F.substring(found, 5, 12)]
        return F.concat(F.lit(begins), variant, *rest)


@dataclass
class Tracer:
    """The trace of one target. `place` is the folder that readers will use."""

    ids: RowIds
    place: Path
    scratch: Path
    pool: ThreadPoolExecutor
    observer: Observer
    redaction: Redaction
    witness: TraceWitness = field(init=False)
    _segments: int = 0
    _distinct: list[Future[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.witness = TraceWitness(self.place, self.pool)

    def begin(self, loaded: StructType, steps: Sequence[Mapping[str, object]]) -> None:
        """Write the list of steps. Later questions about a step use it, even if the pipeline
        changes.
        """
        self.place.mkdir(parents=True)
        content = {
            "format": 1,
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

    def segment(self, seqs: Sequence[int], members: Iterable[Member]) -> None:
        """Write what the steps of a segment did to the rows just written, and commit each step."""
        self._segments += 1
        jobs: list[tuple[str, int | None, Future[Path]]] = []
        for number, member in enumerate(members):
            if member.stages:
                jobs += self._jobs(member, f"{self._segments}-{number}")
                self.witness.segment(seqs, member, self._id(member))
        for seq in seqs:
            self._commit(seq, jobs)

    def created(self, seq: int, member: Member) -> None:
        """Write every row of a member as the step created it."""
        rows = member.stages[-1].live()
        state = F.struct(*self._values(member.flow.columns)).alias("after")
        written = rows.select(self._id(member), state)
        job = self.pool.submit(self._write, written, f"created-{seq}")
        self.witness.created(seq, member, self._id(member))
        self._commit(seq, [("created", seq, job)])

    def wait(self) -> None:
        for check in self._distinct:
            check.result()

    # ---- content of the trace ------------------------------------------------------------

    def _id(self, member: Member) -> Column:
        return self.ids.of(member, F.col(KEY)).alias(ROW_ID)

    def _values(self, names: Iterable[str], within: str = "") -> list[Column]:
        found = [(n, F.col(f"{within}{quoted(n)}")) for n in names]
        return [self.redaction.value(name, value).alias(name) for name, value in found]

    def _jobs(self, member: Member, name: str) -> list[tuple[str, int | None, Future[Path]]]:
        stage = member.stages[-1]
        found: list[tuple[str, int | None, Future[Path]]] = []

        def add(kind: str, seq: int | None, rows: DataFrame, split: str | None = None) -> None:
            place = f"{kind}-{name}" + (f"-{seq}" if seq else "")
            found.append((kind, seq, self.pool.submit(self._write, rows, place, split)))

        for seq in member.written:
            mark = changes.event(seq)
            names = [f.name for f in stage.schema[mark].dataType["after"].dataType]  # type: ignore[index]
            rows = stage.read().where(F.col(mark).isNotNull())
            sides = [
                F.struct(*self._values(names, f"{mark}.{side}.")).alias(side)
                for side in ("before", "after")
            ]
            add("updated", seq, rows.select(self._id(member), f"{mark}.changed", *sides))
        if stage.parts() - {LIVE}:
            ended = stage.read().where(F.col(END).isNotNull())
            add("deleted", None, ended.select(END, self._id(member)), END)
        if not member.born:
            state = F.struct(*self._values(member.loaded, "after.")).alias("after")
            rows = changes.baseline(member).select(FIRST, self._id(member), state)
            add("baseline", None, rows, FIRST)
        return found

    def _write(self, rows: DataFrame, name: str, split: str | None = None) -> Path:
        place = self.scratch / "trace" / name
        # Leave out the common prefix of all ids: a sort compares the first bytes first.
        differing = F.substring(ROW_ID, len("01234567-0123-7000-") + 1, 17)
        ordered = rows.sortWithinPartitions(*([split] if split else []), differing)
        writer = ordered.write.options(**OPTIONS)
        (writer.partitionBy(split) if split else writer).parquet(str(place))
        return place

    # ---- a step is complete when its folder exists ----------------------------------------

    def _commit(self, seq: int, jobs: Sequence[tuple[str, int | None, Future[Path]]]) -> None:
        aside = self.scratch / "trace" / f"step-{seq}"
        try:
            aside.mkdir(parents=True)
            files: list[Path] = []
            for kind, only, job in jobs:
                if only in (None, seq):
                    files += _gather(job.result(), kind, only is None, seq, aside)
            sync(*files)
            faults.reach(Point.TRACE_STEP)
            target = self.place / f"operation_seq={seq}"
            os.rename(aside, target)
            sync(target)
        except (OSError, PySparkException) as error:
            reason = self.redaction.reason(error, 300)
            raise TraceWriteFailure(self.ids.asset, seq, reason) from error
        self.observer.step(str(seq))

    def check_distinct(self, member: Member) -> None:
        self._distinct.append(self.pool.submit(self._refuse_repeated, member))

    def _refuse_repeated(self, member: Member) -> None:
        """Find repeated keys with one shuffle of hashes; compare keys only if two hashes are
        equal.
        """
        stage = member.stages[0]
        rows = stage.read().where((F.col(PART) == LIVE) | F.col(END).isNotNull())
        hashes = rows.groupBy(F.xxhash64(KEY).alias("h")).count().where("count > 1")
        if not hashes.limit(1).count():
            return
        again = rows.groupBy(KEY).count().where("count > 1")
        if count := again.count():
            shown = [row[KEY] for row in again.orderBy(KEY).limit(3).collect()]
            raise RowsNotDistinct(self.ids.asset, member.born, count, shown)


def _gather(written: Path, kind: str, split: bool, seq: int, target: Path) -> list[Path]:
    """Move files with rows to names that say their kind; of files split by step, those of one
    step.
    """
    folder = next(iter(sorted(written.glob(f"*={seq}"))), None) if split else written
    moved: list[Path] = []
    for file in sorted(folder.glob("part-*.parquet")) if folder else ():
        if pq.read_metadata(file).num_rows:
            taken = len(list(target.glob(f"{kind}-*.parquet")))
            moved.append(target / f"{kind}-{taken:05d}.parquet")
            os.rename(file, moved[-1])
    return moved
