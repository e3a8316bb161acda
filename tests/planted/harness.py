"""Put a bug into the seams of the engine while one asset is made, and take it out afterwards."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame

from tallyman.engine.asset.asset_run import AssetRun
from tallyman.engine.asset.closing import Closing
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.files import parquet
from tests.planted.plants import Plant
from tests.planted.seams import READS


class Harness:
    """`fired` holds the assets whose bug was met."""

    def __init__(self, plants: Mapping[str, Plant]) -> None:
        self.plants, self.fired = plants, set[str]()
        self._own = threading.local()
        self._folders: dict[str, tuple[Path, Path]] = {}
        self._harmed: set[str] = set()

    @property
    def current(self) -> Plant | None:
        """The bug of the asset that this thread works for: its own thread, or one of its pool,
        which is called after it."""
        of_pool = threading.current_thread().name.rpartition("_")[0]
        return self.plants.get(getattr(self._own, "asset", of_pool))

    def install(self, patch: pytest.MonkeyPatch, seams: set[str]) -> None:
        execute, write = AssetRun.execute, DataFrame.write.fget

        def executed(run: AssetRun) -> object:
            work = run.work
            self._own.asset = work.asset.name
            self._folders[work.asset.name] = (work.folders.result, work.folders.scratch)
            # Once in each evaluation: on a mismatch an input may be read again, line by line.
            self._harmed.discard(work.asset.name)
            try:
                return execute(run)
            finally:
                del self._own.asset

        patch.setattr(AssetRun, "execute", executed)
        patch.setattr(DataFrame, "write", property(lambda rows: write(self._changed(rows))))
        few = parquet.few

        def few_here(rows: int, most: int = parquet.ROWS) -> bool:
            plant = self.current
            by_spark = plant is not None and plant.here is None
            return few(rows, most) and not by_spark

        kept = Closing.kept

        def kept_here(closing: Closing) -> Kept:
            plant = self.current
            found = kept(closing)
            return replace(found, limit=0) if plant is not None and plant.many else found

        patch.setattr(parquet, "few", few_here)
        patch.setattr(Closing, "kept", kept_here)
        for seam in seams:
            self._wrap(patch, seam)

    def _wrap(self, patch: pytest.MonkeyPatch, seam: str) -> None:
        place, _, path = seam.partition(":")
        module = importlib.import_module(f"tallyman.engine.{place}")
        *within, name = path.split(".")
        owner: Any = getattr(module, within[0]) if within else module
        original = owner.__dict__[name]
        wrapped = self._wrapped(seam, original)
        patch.setattr(owner, name, wrapped)
        if not within:  # other modules may have imported it by name
            for other in [m for n, m in sys.modules.items() if n.startswith("tallyman.")]:
                if getattr(other, name, None) is original:
                    patch.setattr(other, name, wrapped)

    def _wrapped(self, seam: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*given: Any, **named: Any) -> Any:
            plant = self.current
            if plant is None or plant.seam != seam:
                return original(*given, **named)
            if plant.here is not None and seam not in READS:
                given = (self._met(plant, plant.here, given[0]), *given[1:])
            with self._entered():
                found = original(*given, **named)
            if (change := plant.rows or plant.here) is not None and seam in READS:
                return self._met(plant, change, found)
            if plant.files is not None:
                self._harm(plant)
            return found

        return call

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self._own.depth = getattr(self._own, "depth", 0) + 1
        try:
            yield
        finally:
            self._own.depth -= 1

    def _changed(self, rows: DataFrame) -> DataFrame:
        plant = self.current
        if plant is None or plant.rows is None or not getattr(self._own, "depth", 0):
            return rows
        return rows if plant.seam in READS else self._met(plant, plant.rows, rows)

    def _met(self, plant: Plant, change: Callable[[Any], Any], rows: Any) -> Any:
        changed = change(rows)
        if changed is not rows:
            self.fired.add(plant.asset)
        return changed

    def _harm(self, plant: Plant) -> None:
        assert plant.files is not None
        if plant.asset in self._harmed:
            return
        folders = self._folders[plant.asset]
        files = sorted(file for folder in folders for file in _rows_in(folder, plant.at))
        if files:
            plant.files(files)
            self._harmed.add(plant.asset)
            self.fired.add(plant.asset)


def _rows_in(folder: Path, at: str) -> Iterator[Path]:
    # Not rglob, which fails when Spark, in another thread, takes away what it was about to list.
    for place, _, names in os.walk(folder):
        for file in (Path(place, name) for name in names):
            data = file.suffix in (".parquet", ".jsonl", ".csv") and not file.name.startswith(".")
            below = f"/{file.relative_to(folder)}"
            if data and at in below and "/_temporary/" not in below:
                yield file
