"""Files that output steps were asked for: copies, put where people look when a run is published."""

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
"""In a folder of ours: only such a folder is ever replaced."""


def export(home: Path, run: str, places: Iterable[Path]) -> list[str]:
    """The paths that were written, for the targets a run made; ExportFailed at the first that
    could not be."""
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
    """The folders of what a run published: of partitions that were not done, nothing."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    bad = {row.target.partition for row in rows if not row.status.good}
    made = [row.location for row in rows if row.location and row.target.partition not in bad]
    return [(home / location).parent for location in made]


def _put(home: Path, run: str, origin: Path, one: dict[str, Any]) -> None:
    target = home / one["path"]
    if target.resolve() != home.resolve() / one["path"]:
        raise OSError("the path leads out of the project")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    files = sorted(file for file in origin.iterdir() if file.is_file())
    if one["single_file"]:
        if target.is_dir():
            raise IsADirectoryError("there is a folder of this name")
        shutil.copyfile(files[0], aside)
        sync(aside)
        os.replace(aside, target)
        sync(target)
        return
    if target.exists() and not (target / MARK).exists() and any(target.iterdir()):
        raise FileExistsError("it holds files that no run wrote; move them away")
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
