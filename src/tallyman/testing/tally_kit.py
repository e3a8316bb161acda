"""Run an asset, or a pipeline, on rows given in a test. No project, no database, no warehouse."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.testing.declared import PipelineLike, pipeline_around, pipeline_of
from tallyman.testing.given import Given, GivenRows
from tallyman.testing.made_asset import MadeAsset
from tallyman.testing.run_on_rows import Limits, RunOnRows
from tallyman.testing.spark import session_for_tests

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
        run = RunOnRows(pipeline, (asset.name,), _given(rows), partition, Limits.of(thresholds))
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
            Limits.of(thresholds),
        )
        return self._made(run, at)

    def close(self) -> None:
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
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
