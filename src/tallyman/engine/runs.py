"""Runs as their folders tell them: finished or not, newest first."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.errors import NotFound, UsageError


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder. A run without a report was interrupted, or is still at work."""

    folder: Path
    manifest: dict[str, Any]
    report: dict[str, Any] | None

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])

    @property
    def status(self) -> str:
        return str(self.report["status"]) if self.report else "unfinished"

    def ledger(self, asset: str) -> dict[str, Any]:
        path = self.folder / asset / "ledger.json"
        if not path.exists():
            raise NotFound(f"ledger in run {self.run_id} for asset", asset, self._nearest(asset))
        return _json(path)

    def assets(self) -> list[str]:
        return [str(name) for name in self.manifest["assets"] if (self.folder / name).is_dir()]

    def _nearest(self, asset: str) -> str | None:
        near = difflib.get_close_matches(asset, self.assets(), 1)
        return near[0] if near else None


def list_runs(runs: Path) -> list[Run]:
    found = []
    for manifest in runs.glob("*/manifest.json"):
        report = manifest.parent / "processing_report.json"
        found.append(
            Run(manifest.parent, _json(manifest), _json(report) if report.exists() else None)
        )
    order = {run.run_id: run.folder.stat().st_ctime_ns for run in found}
    return sorted(found, key=lambda r: (r.manifest["timestamp"], order[r.run_id]), reverse=True)


def get_run(runs: Path, wanted: str) -> Run:
    """By id, unique prefix, folder name, or `latest`."""
    known = list_runs(runs)
    if wanted == "latest":
        if not known:
            raise NotFound("run", "latest")
        return known[0]
    name = Path(wanted).name
    exact = [run for run in known if name in (run.run_id, run.folder.name)]
    found = exact or [run for run in known if run.run_id.startswith(name)]
    if len(found) > 1:
        raise UsageError(f"run {wanted!r} is not unique: {', '.join(r.run_id for r in found)}")
    if not found:
        near = difflib.get_close_matches(name, [run.run_id for run in known], 1)
        raise NotFound("run", wanted, near[0] if near else None)
    return found[0]


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))
