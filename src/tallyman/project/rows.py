"""Rows of a project: read them, compare them, and trace their origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish.resolve import Resolved
from tallyman.domain.history.asked_row import asked_row
from tallyman.domain.history.run import Status
from tallyman.domain.history.walk import Where, Why
from tallyman.domain.pipeline.target import Target
from tallyman.engine.expressions.column_names import SYSTEM
from tallyman.errors import DatasetDamaged, NotFound, UsageError
from tallyman.errors.wording import first_line
from tallyman.on_demand import OnDemand
from tallyman.project.datasets import ProjectDatasets
from tallyman.project.runs import ProjectRuns
from tallyman.query.diff.diff import Difference, diff
from tallyman.query.rows import first_rows
from tallyman.query.trace.asset import Trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tallyman.query.walk import results, where, why
else:
    results = OnDemand("tallyman.query.walk.results")
    where = OnDemand("tallyman.query.walk.where")
    why = OnDemand("tallyman.query.walk.why")


@dataclass(frozen=True, slots=True)
class ProjectRows:
    """Answers questions about rows."""

    workspace: Workspace

    def __call__(
        self, name: str, version: int | None = None, *, limit: int = 20
    ) -> tuple[Resolved, list[dict[str, Any]]]:
        """Return the version, and its first rows (20, unless `limit` says more), without Spark."""
        found = self._datasets.resolve(name, version)
        return found, first_rows(name, self.workspace.warehouse.expected(found.fragments), limit)

    def read(
        self, name: str, *, partition: str | None = None, version: int | None = None
    ) -> DataFrame:
        """Read a version of a dataset (default: the current one) as a Spark DataFrame."""
        if partition is not None and name in self.workspace.pipeline.assets:
            partition = self._runs.target(name, partition).partition
        found = self._datasets.resolve(name, version)
        fragments = [f for f in found.fragments if partition in (None, f.partition)]
        if not fragments:
            raise NotFound("partition of", f"{name}[{partition}]")
        self.workspace.warehouse.check(name, fragments)
        paths = self.workspace.warehouse.paths(fragments)
        return self.workspace.spark().read.parquet(*paths).drop(SYSTEM)

    def diff(self, name: str, before: int, after: int, *, limit: int = 20) -> Difference:
        """Compare two versions row by row, by the dataset's key; fragments that both have are not
        read."""
        old, new = self._datasets.resolve(name, before), self._datasets.resolve(name, after)
        both = {f.id for f in old.fragments} & {f.id for f in new.fragments}
        sides = [[f for f in side.fragments if f.id not in both] for side in (old, new)]
        for side in sides:
            self.workspace.warehouse.check(name, side)
        paths = [self.workspace.warehouse.paths(side) for side in sides]
        try:
            return diff(*paths, key=new.dataset.key_columns, limit=limit)
        except duckdb.Error as error:
            raise DatasetDamaged(name, first_line(error)) from error

    def why(  # noqa: PLR0913  the options of `tallyman why`
        self,
        dataset: str,
        row: Mapping[str, object],
        *,
        version: int | None = None,
        partition: str | None = None,
        limit: int | None = 20,
        keys: bool = False,
        starting: Callable[[str], None] = lambda _: None,
    ) -> Why:
        """Follow rows of a dataset back to the records and files of sources. None and the text
        `null` are NULL, `'null'` is the text; bytes may be given as hex. `limit=None` is none.
        `starting` is called with the reason if Spark has to start."""
        found = self._datasets.resolve(dataset, version)
        asset, registered, name = found.dataset.producer.partition("/")
        declared = self.workspace.pipeline.assets.get(asset)
        if registered and not (declared and name in dict(declared.split)):
            by = "holds rejections or was registered by an output step"
            raise UsageError(
                f"{dataset} {by} of {asset}: use `tallyman why {asset} …`, "
                "`tallyman where SOURCE …`, or `tallyman trace RUN --key …`"
            )
        fragments = [f for f in found.fragments if f.files]
        if partition is not None:
            wanted = self._runs.target(asset, partition).partition
            fragments = [f for f in fragments if f.partition == wanted]
        if not fragments:
            raise NotFound(f"row in v{found.version.ordinal} of", str(Target(dataset, partition)))
        with why.Walk.begun(
            self._past(starting), why.RowQuestion(asked_row(row), limit, keys)
        ) as walk:
            return walk.why(found, fragments)

    def where(
        self,
        source: str,
        row: Mapping[str, object],
        *,
        run: str | None = None,
        limit: int | None = 20,
        starting: Callable[[str], None] = lambda _: None,
    ) -> Where:
        """Follow records of a source to everything they reached, or to the step where they
        ended. Values are given as for `why`."""
        only = None if run is None else self._runs.find(run)
        with where.ForwardWalk.begun(
            self._past(starting), why.RowQuestion(asked_row(row), limit)
        ) as walk:
            return walk.where(source, only)

    def trace(self, run: str) -> Trace:
        """Open the trace of a finished run: what each step changed, row by row. Does not need
        Spark."""
        _, record = self._runs.place(run)
        canceled = record is not None and record.status is Status.CANCELED
        return Trace(self._runs.folder(run), canceled=canceled)

    def _past(self, starting: Callable[[str], None]) -> results.Past:
        self.workspace.session.enter_mode()  # plans may be built before Spark starts
        return results.Past(self.workspace, starting)

    @property
    def _datasets(self) -> ProjectDatasets:
        return ProjectDatasets(self.workspace)

    @property
    def _runs(self) -> ProjectRuns:
        return ProjectRuns(self.workspace)
