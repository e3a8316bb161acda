"""Discard what a canceled run leaves: every trace, and the results that had one.

Rows are marked first, in the transaction that cancels the run, and files are removed after it. What
a crash leaves in between is removed by `tallyman cleanup`.
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.run_folder import TRACE, UNFINISHED
from tallyman.errors import TallymanError, TraceDiscarded
from tallyman.registry.database import Transaction
from tallyman.registry.run.discards import take_back
from tallyman.registry.run.materializations import Materializations

STAYING = (Status.SUCCESS, Status.WAITING)
"""States of targets whose results stay, if nothing discards them."""


def mark(tx: Transaction, home: Path, run: RunRecord) -> list[Path]:
    """Take back results with a trace, and results made from them, unless a version or another run
    has them. Return the folders to remove after the commit.
    """
    rows = Materializations(tx).of_run(run.id)
    traced = [row.id for row in rows if row.status is Status.SUCCESS and _is_traced(home, row)]
    take_back(tx, run.id, traced, TraceDiscarded(run.name).facts())
    return leftovers(home, run, Materializations(tx).of_run(run.id))


def leftovers(home: Path, run: RunRecord, rows: Iterable[Materialization]) -> list[Path]:
    """List the folders with a trace that a canceled run must not keep, of all attempts."""
    folder = home / run.folder
    stays = {row.target for row in rows if row.status in STAYING}
    found = [folder / UNFINISHED]
    for target, name in _folders(folder).items():
        places = sorted(folder.glob(f"attempts/*/{glob.escape(name)}"))
        places += [] if target in stays else [folder / name]
        found += [place for place in places if (place / TRACE).is_dir()]
    # The manifest names the folders, and somebody may have changed it.
    own = folder.resolve()
    return [place for place in found if place.exists() and own in place.resolve().parents]


def remove(places: Sequence[Path]) -> None:
    for place in places:
        shutil.rmtree(place, ignore_errors=True)


def _is_traced(home: Path, row: Materialization) -> bool:
    return row.location is not None and ((home / row.location).parent / TRACE).is_dir()


def _folders(folder: Path) -> dict[Target, str]:
    """Map the targets of a run to their folders; none if the run did not get to its manifest."""
    try:
        return Run.open(folder).manifest.folders
    except TallymanError:
        return {}
