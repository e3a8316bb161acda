"""Checks of each segment's output, made while the next segment is evaluated."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from tallyman.domain.account.ledger import KeyDigest
from tallyman.domain.pipeline.threshold import Halt, Thresholds
from tallyman.engine.expressions.column_names import ERROR
from tallyman.engine.segment.ended import EndedRows
from tallyman.engine.segment.stage import Stage
from tallyman.engine.source.doors import Doors


class Halted(Exception):
    """Too many records were rejected; evaluation stops."""


@dataclass
class StageChecks:
    """Checks of thresholds, one segment later than the evaluation."""

    thresholds: Thresholds
    doors: Doors
    pool: ThreadPoolExecutor
    halt: Halt | None = None
    _errors: int = 0
    """The number of rejected records; a failed group counts as its records."""
    _ended: dict[str, Future[EndedRows]] = field(default_factory=dict)
    """The rows that ended in each stage, by its path."""
    _last: Stage | None = None

    def written(self, stage: Stage) -> None:
        """Check the previous segment, then start counting this one."""
        self.check()
        self._ended[stage.path] = self.pool.submit(stage.ended)
        self._last = stage

    def ended(self, stage: Stage) -> EndedRows:
        """Return the rows that ended in a stage; wait until they are counted."""
        return self._ended[stage.path].result()

    def check(self) -> None:
        """Check the segment written last; raise Halted if a threshold is exceeded."""
        if self._last is None:
            return
        stage, self._last = self._last, None
        found = self.ended(stage).totals
        if stage.level == 0:
            self._errors += found.get(ERROR, KeyDigest()).count
        self.halt = self.thresholds.check(self._errors, self.doors.records_in)
        if self.halt:
            raise Halted
