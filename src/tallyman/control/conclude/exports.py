"""Exports: copies of output steps' files, written to the requested paths when a run is
published."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyman.control.publish.of_run import to_publish
from tallyman.domain.definition.working_step import Output
from tallyman.domain.history.materialization import RunRecord
from tallyman.engine.files import durable
from tallyman.engine.files.run_folder import write_json
from tallyman.errors import ExportFailed, OutputTaken
from tallyman.on_demand import OnDemand
from tallyman.registry.database import Database
from tallyman.registry.run.materializations import Materializations
from tallyman.settings import Settings
from tallyman.state_folder import ready

if TYPE_CHECKING:
    from tallyman.engine.asset.work import Work
    from tallyman.engine.working import working_run, working_set
else:
    working_run = OnDemand("tallyman.engine.working.working_run")
    working_set = OnDemand("tallyman.engine.working.working_set")

MARK = "_tallyman.json"
"""The file that marks a folder as written by Tallyman: only such a folder is ever replaced."""
FOLDER = "exports"
"""The folder, in the state folder, of the records: one file for each path."""


def records_of(settings: Settings) -> ExportRecords:
    return ExportRecords(settings.home, settings.state_folder)


def export(records: ExportRecords, run: str, made: Iterable[tuple[str, Path]]) -> None:
    """Copy the exports of a run's targets, given as asset and folder. Raises ExportFailed at the
    first error, with the paths that were written."""
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
        durable.sync(aside)
        records.add(asset, one["path"], run, aside)
        os.replace(aside, target)
        durable.sync(target)
        return
    if target.exists() and not (target / MARK).exists() and any(target.iterdir()):
        raise FileExistsError("it contains files that no run wrote; move them away")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for file in files:
        shutil.copyfile(file, aside / file.name)
    write_json(aside / MARK, {"run": run, "step": one["id"]})
    durable.sync(*(path for path in aside.iterdir()))
    if target.exists():
        gone = target.with_name(f".{target.name}.{os.getpid()}.old")
        os.rename(target, gone)
        os.rename(aside, target)
        shutil.rmtree(gone, ignore_errors=True)
    else:
        os.rename(aside, target)
    durable.sync(target)


@dataclass(frozen=True, slots=True)
class ExportRecords:
    """The records of a project, one file for each path: which run of which asset wrote it, and its
    hash. Only a file that is still as recorded is ever replaced."""

    home: Path
    state: Path

    def refusal(self, asset: str, path: str) -> str | None:
        """Say why the file at this path may not be replaced; None if it may."""
        target = self.home / path
        if target.is_dir():
            return "a folder with this name exists"
        if not target.exists() and not target.is_symlink():
            return None
        if target.is_symlink() or not target.is_file():
            return f"no run of asset {asset!r} wrote what is there; move it away"
        digest, known = _digest(target), self._read(path)
        if known is None:
            return f"no run of asset {asset!r} wrote the file that is there; move it away"
        if known["asset"] != asset:
            return f"asset {known['asset']!r} wrote the file that is there; move it away"
        # A crash between the record and the move leaves the file before.
        if digest not in (known["sha256"], known.get("before")):
            return f"the file was changed since run {known['run']} wrote it; move it away"
        return None

    def add(self, asset: str, path: str, run: str, written: Path) -> None:
        """Record a file before it is moved to its path."""
        place = self._place(path)
        ready(self.state)
        place.parent.mkdir(exist_ok=True)
        target = self.home / path
        before = _digest(target) if target.exists() else None
        found = {"path": path, "asset": asset, "run": run, "before": before}
        found["sha256"] = _digest(written)
        aside = place.with_suffix(".part")
        durable.write(aside, json.dumps(found).encode())
        aside.replace(place)

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self._place(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return (
            found if isinstance(found, dict) and {"asset", "run", "sha256"} <= set(found) else None
        )

    def _place(self, path: str) -> Path:
        return self.state / FOLDER / f"{hashlib.sha256(path.encode()).hexdigest()[:32]}.json"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
