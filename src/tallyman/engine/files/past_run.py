"""Past runs, read from their folders: what a run was bound to, made, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.domain.account import ledger_json
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.manifest import Manifest
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.run_folder import LEDGER, MANIFEST, REPORT, SEAL
from tallyman.engine.files.vouched import Vouched
from tallyman.errors import NotFound, RunDamaged, UsageError
from tallyman.errors.wording import nearest


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder. Without a report, the run was interrupted or is still running."""

    folder: Path
    manifest: Manifest
    report: dict[str, Any] | None
    reused: Mapping[Target, Path]
    """The folders of targets that this run reused instead of making them again."""
    vouched: Vouched
    """The recorded hashes of its files."""

    @classmethod
    def open(
        cls,
        folder: Path,
        reused: Mapping[Target, Path] | None = None,
        vouched: Vouched | None = None,
    ) -> Run:
        known = vouched or Vouched(folder.parent)
        found = known.json(folder / MANIFEST)
        if found is None:
            raise NotFound("folder of the run", folder.name)
        try:
            manifest = Manifest.of_json(found)
        except ValueError as error:
            raise RunDamaged(f"{folder.name}/{MANIFEST}", str(error)) from error
        return cls(folder, manifest, known.json(folder / REPORT), reused or {}, known)

    @property
    def run_id(self) -> str:
        return self.manifest.run_id

    def places(self, asset: str | None = None) -> dict[Target, Path]:
        """Map each target that has files to its folder."""
        listed = self.manifest.targets
        assets = {one.target.asset for one in listed}
        if asset is not None and asset not in assets:
            raise NotFound(f"asset in run {self.run_id}", asset, nearest(asset, assets))
        found = {
            one.target: self.folder / one.folder
            for one in listed
            if asset in (None, one.target.asset)
        }
        found |= {target: place for target, place in self.reused.items() if target in found}
        return {target: place for target, place in found.items() if place.is_dir()}

    def place(self, asset: str, partition: str | None = None) -> tuple[Target, Path]:
        """Find the folder of one target; the partition may be omitted if there is only one."""
        found = [(t, p) for t, p in self.places(asset).items() if partition in (None, t.partition)]
        if len(found) > 1:
            known = ", ".join(str(t.partition) for t, _ in found[:5])
            raise UsageError(f"run {self.run_id} made {len(found)} partitions of {asset}: {known}…")
        if not found:
            raise NotFound(f"result in run {self.run_id} of", str(Target(asset, partition)))
        return found[0]


def find_folder(runs: Path, wanted: str) -> Path | None:
    """Find a run folder by the name of the run or of the folder."""
    for folder in sorted((path for path in runs.glob("*/") if path.is_dir()), reverse=True):
        # Two files have the name of the run; one of them may be broken or missing.
        named = (_run_named_in(folder / name) for name in (MANIFEST, SEAL))
        if Path(wanted).name == folder.name or wanted in named:
            return folder
    return None


def _run_named_in(path: Path) -> str | None:
    try:
        return str(_json(path)["run_id"])
    except (KeyError, OSError, TypeError, ValueError):
        return None


def ledger_in(place: Path) -> StoredLedger:
    """Read the ledger of a target; ValueError if the file is not a ledger."""
    path = place / LEDGER
    if not path.exists():
        raise NotFound("ledger in", place.name)
    return ledger_json.of_json(_json(path))


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return found
