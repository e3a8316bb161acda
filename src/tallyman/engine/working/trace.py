"""Keeping the trace: files that were written with the rows, moved to their place step by step."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql.types import StructType

from tallyman import faults
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.durable import sync
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.observer import Observer
from tallyman.engine.working.changes import Member
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.trace_layout import FORMAT, STEPS
from tallyman.engine.working.trace_witness import TraceWitness
from tallyman.errors import TraceWriteFailure
from tallyman.faults import Point

NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}


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

    def __post_init__(self) -> None:
        self.witness = TraceWitness(self.place, self.ids, self.pool)

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
            self.witness.expect(seqs, number, member)

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
