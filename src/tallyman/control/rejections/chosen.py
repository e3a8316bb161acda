"""The selection of rejections that a command is about."""

from __future__ import annotations

from dataclasses import dataclass

from tallyman.domain.history.materialization import RunRecord
from tallyman.engine.files.past_run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A selection of a run's rejections."""

    run: Run
    record: RunRecord | None
    asset: str | None = None
    where: str | None = None
