"""Exports: copies of output steps' files, written to the requested paths when a run is
published."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tallyman.domain.history.materialization import RunRecord
from tallyman.engine.files.durable import sync
from tallyman.engine.files.run_folder import write_json
from tallyman.engine.working.working_run import outputs_in
from tallyman.errors import ExportFailed
from tallyman.registry.database import Database
from tallyman.registry.run.materializations import Materializations

MARK = "_tallyman.json"
"""The file that marks a folder as written by Tallyman: only such a folder is ever replaced."""


def export(home: Path, run: str, places: Iterable[Path]) -> list[str]:
    """Copy the exports of a run's targets and return the written paths. Raises ExportFailed at the
    first error."""
    done: list[str] = []
    for place in places:
        for one in outputs_in(place):
            try:
                _put(home, run, place / "outputs" / one["id"], one)
            except OSError as error:
                raise ExportFailed(run, one["path"], str(error), done) from error
            done.append(one["path"])
    return done


def made_in(database: Database, home: Path, run: RunRecord) -> list[Path]:
    """List the folders of the targets that a run published; partitions with a failed target are
    left out."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    bad = {row.target.partition for row in rows if not row.status.good}
    made = [row.location for row in rows if row.location and row.target.partition not in bad]
    return [(home / location).parent for location in made]


def _put(home: Path, run: str, origin: Path, one: dict[str, Any]) -> None:
    target = home / one["path"]
    if target.resolve() != home.resolve() / one["path"]:
        raise OSError("the path is outside the project")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    files = sorted(file for file in origin.iterdir() if file.is_file())
    if one["single_file"]:
        if target.is_dir():
            raise IsADirectoryError("a folder with this name exists")
        shutil.copyfile(files[0], aside)
        sync(aside)
        os.replace(aside, target)
        sync(target)
        return
    if target.exists() and not (target / MARK).exists() and any(target.iterdir()):
        raise FileExistsError("it contains files that no run wrote; move them away")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for file in files:
        shutil.copyfile(file, aside / file.name)
    write_json(aside / MARK, {"run": run, "step": one["id"]})
    sync(*(path for path in aside.iterdir()))
    if target.exists():
        gone = target.with_name(f".{target.name}.{os.getpid()}.old")
        os.rename(target, gone)
        os.rename(aside, target)
        shutil.rmtree(gone, ignore_errors=True)
    else:
        os.rename(aside, target)
    sync(target)
