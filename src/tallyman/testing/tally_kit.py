"""Run an asset, or a pipeline, on rows given in a test. No project, no database, no warehouse."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Self, TypeAlias

from tallyman.control.compile import load
from tallyman.control.compile.compiling import columns_as_data, compile_folder, compiled_pipeline
from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, Source
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.version.table import Table
from tallyman.errors import DefinitionError, Problem, UsageError
from tallyman.testing.given import Given, GivenRows
from tallyman.testing.made_asset import MadeAsset
from tallyman.testing.run_on_rows import RunOnRows, limits_of
from tallyman.testing.spark import session_for_tests

Declaration: TypeAlias = Source | Asset | Table
PipelineLike: TypeAlias = Pipeline | str | PathLike[str] | Iterable[Declaration]
ADVICE = "Run it with `run_pipeline`, which takes a folder of pipelines or a list of declarations."

ThresholdsLike: TypeAlias = Thresholds | str | Mapping[str, object] | None


class TallyKit:
    """Runs in a folder of its own, which `close` removes. The fixture `tally` is one for each
    test; use it as a context manager where several tests share what was made."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tallyman-test-")
        self._numbers = count(1)

    def run(
        self,
        asset: Asset,
        rows: Mapping[str, GivenRows],
        *,
        partition: str | None = None,
        thresholds: ThresholdsLike = None,
        at: datetime | None = None,
    ) -> MadeAsset:
        """Make one asset. `rows` are those of its inputs: of sources and tables, and of other
        assets, which are made first where no rows are given.

        A failure of the asset is raised as the error that a run would report. Thresholds halt
        nothing unless they are given; "declared" means those of the asset. `at` is the time that
        the run's expressions see.
        """
        pipeline = pipeline_around(asset)
        run = RunOnRows(pipeline, (asset.name,), _given(rows), partition, limits_of(thresholds))
        return self._made(run, at)[asset.name]

    def run_pipeline(
        self,
        pipeline: PipelineLike,
        rows: Mapping[str, GivenRows],
        *,
        select: str | Sequence[str] | None = None,
        partition: str | None = None,
        thresholds: ThresholdsLike = None,
        at: datetime | None = None,
    ) -> dict[str, MadeAsset]:
        """Make the assets of a pipeline, or those selected, each after what it reads; by name.

        `pipeline` is a folder of pipelines, one Python or YAML file, or a list of declarations.
        """
        found = pipeline_of(pipeline)
        given = _given(rows)
        names = [select] if isinstance(select, str) else select
        chosen = tuple(name for name in found.order() if name not in given)
        run = RunOnRows(
            found,
            chosen if names is None else tuple(names),
            given,
            partition,
            limits_of(thresholds),
        )
        return self._made(run, at)

    def close(self) -> None:
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _made(self, run: RunOnRows, at: datetime | None) -> dict[str, MadeAsset]:
        run.check()
        home = Path(self._folder.name) / str(next(self._numbers))
        identity = RunIdentity.of(None, now=datetime.now(UTC) if at is None else _universal(at))
        with session_for_tests(Path(self._folder.name)) as spark:
            return run.make(spark, home, identity)


def _given(rows: Mapping[str, GivenRows]) -> dict[str, Given]:
    return {name: Given.of(name, listed) for name, listed in rows.items()}


def _universal(at: datetime) -> datetime:
    """Convert to UTC; without a time zone it is UTC, as in Spark here."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def pipeline_around(asset: Asset) -> Pipeline:
    """Find everything the asset is made from among the variables of the functions' modules."""
    if not isinstance(asset, Asset):
        what = asset.__name__ if callable(asset) and hasattr(asset, "__name__") else repr(asset)
        raise UsageError(f"{what} is no asset: expected a function declared with @tm.asset")
    found: dict[str, Declaration] = {asset.name: asset}
    todo = [asset]
    while todo:
        reader = todo.pop()
        known = _named_beside(reader)
        for name in reader.inputs:
            if name in found:
                continue
            if name not in known:
                raise UsageError(
                    f"asset {reader.name} reads {name!r}, and its module has no variable with a "
                    f"source, table or asset of that name. {ADVICE}"
                )
            found[name] = item = known[name]
            if isinstance(item, Asset):
                todo.append(item)
    return compiled_pipeline(Pipeline.of(list(found.values())))


def _named_beside(asset: Asset) -> dict[str, Declaration]:
    module = getattr(inspect.unwrap(asset.function), "__globals__", {})
    declared = (item for item in module.values() if isinstance(item, Declaration))
    return {item.name: item for item in declared}


def pipeline_of(given: PipelineLike) -> Pipeline:
    """Take a pipeline, or read it from its folder or file, or put it together from declarations."""
    if isinstance(given, Pipeline):
        return compiled_pipeline(given)
    if isinstance(given, (str, PathLike)):
        return _read(Path(given))
    if not isinstance(given, Iterable):
        raise UsageError(f"expected a pipeline, its folder or its declarations, not {given!r}")
    listed = list(given)
    for item in listed:
        if not isinstance(item, Declaration):
            raise UsageError(f"expected sources, tables and assets, not {item!r}")
    return compiled_pipeline(Pipeline.of(listed))


def _read(path: Path) -> Pipeline:
    if not path.is_file():
        return compile_folder(path).pipeline()
    with columns_as_data():
        declared = load.declared_in(path)
    if not declared:
        raise DefinitionError([Problem(path.name, "no source and no asset is declared")])
    return compiled_pipeline(Pipeline.of(declared))
