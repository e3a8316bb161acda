"""Exports: copies of output steps' files, written to the requested paths when a run is
published."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyman.control.conclude.export_records import ExportRecords
from tallyman.control.publish.of_run import to_publish
from tallyman.domain.definition.working_step import Output
from tallyman.domain.history.materialization import RunRecord
from tallyman.engine.files.durable import sync
from tallyman.engine.files.run_folder import write_json
from tallyman.errors import ExportFailed, OutputTaken
from tallyman.on_demand import OnDemand
from tallyman.registry.database import Database
from tallyman.registry.run.materializations import Materializations
from tallyman.settings import Settings

if TYPE_CHECKING:
    from tallyman.engine.asset.work import Work
    from tallyman.engine.working import working_run, working_set
else:
    working_run = OnDemand("tallyman.engine.working.working_run")
    working_set = OnDemand("tallyman.engine.working.working_set")

MARK = "_tallyman.json"
"""The file that marks a folder as written by Tallyman: only such a folder is ever replaced."""


def records_of(settings: Settings) -> ExportRecords:
    return ExportRecords(settings.home, settings.state_folder)


def export(records: ExportRecords, run: str, made: Iterable[tuple[str, Path]]) -> list[str]:
    """Copy the exports of a run's targets, given as asset and folder, and return the written paths.
    Raises ExportFailed at the first error."""
    done: list[str] = []
    for asset, place in made:
        for one in working_run.outputs_in(place):
            if one["path"] is None:  # an output of a split is a dataset, not a file
                continue
            try:
                _put(records, run, asset, place / "outputs" / one["id"], one)
            except OSError as error:
                raise ExportFailed(run, one["path"], str(error), done) from error
            done.append(one["path"])
    return done


def refuse_foreign_files(records: ExportRecords, work: Work) -> None:
    """Refuse to make a target that would write over a file that no run of its asset wrote."""
    for step in work.plan.steps():
        if isinstance(step, Output) and working_set.is_file(step.path):
            path = step.path.replace("{partition}", work.partition_label)
            reason = records.refusal(work.asset.name, path)
            if reason:
                raise OutputTaken(work.asset.name, path, reason)


def made_in(database: Database, home: Path, run: RunRecord) -> list[tuple[str, Path]]:
    """List the assets and folders of the targets that a run published."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    made = [row for row in to_publish(run, rows) if row.location]
    return [(row.target.asset, (home / str(row.location)).parent) for row in made]


def _put(records: ExportRecords, run: str, asset: str, origin: Path, one: dict[str, Any]) -> None:
    home = records.home
    target = home / one["path"]
    if target.resolve() != home.resolve() / one["path"]:
        raise OSError("the path is outside the project")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    files = sorted(file for file in origin.iterdir() if file.is_file())
    if one["single_file"]:
        # Another program may have written there since the run began.
        reason = records.refusal(asset, one["path"])
        if reason:
            raise FileExistsError(reason)
        shutil.copyfile(files[0], aside)
        sync(aside)
        records.add(asset, one["path"], run, aside)
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
