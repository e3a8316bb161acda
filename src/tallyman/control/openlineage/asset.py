"""The lineage description of a target: its inputs and outputs, from its definition and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.control.bind.manifest import label
from tallyman.control.bind.pinned_files import Pin
from tallyman.control.openlineage.datasets import LineageDataset, of_source
from tallyman.control.openlineage.events import LineageAsset, LineageRun
from tallyman.control.openlineage.files import described_by_folder
from tallyman.control.openlineage.summary import small, with_totals
from tallyman.control.openlineage.totals import Total, Totals, total
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.redaction import hidden_columns
from tallyman.control.pipeline.shared import find_shared
from tallyman.domain.compiled.compiled_plan import CompiledPlan
from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.run import AssetResult, Status
from tallyman.domain.pipeline.pipeline import Asset, SharedDataset
from tallyman.domain.pipeline.target import Target, folder_of, readings
from tallyman.domain.version.commit import Commit
from tallyman.engine.code.kept_files import YAML
from tallyman.engine.code.shown_code import Code, shown_code
from tallyman.engine.files.listing import InputFile
from tallyman.engine.readback.rejected_columns import COLUMNS
from tallyman.engine.warehouse.footers import Extent, extents, sizes
from tallyman.errors import DatasetDamaged
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import types

    from tallyman.engine.working import working_run
else:
    types = OnDemand("pyspark.sql.types")
    working_run = OnDemand("tallyman.engine.working.working_run")

MANY = 200
"""The most files of one dataset whose footers are read; for more, only sizes are reported."""
WITHOUT_EVENTS = (Status.SKIPPED, Status.PENDING)
"""Targets that the run did not make, so its final event leaves them out."""


@dataclass
class AssetFacts:
    """Facts about the targets of one run. Without Spark the definitions are not checked; then only
    the files are used."""

    definitions: Definitions
    run: LineageRun
    folder: str
    """The run folder, relative to the project."""
    _ended: dict[Target, LineageAsset] = field(default_factory=dict)
    """Ended targets, condensed: there may be ten thousand of them."""
    _plans: dict[str, Frame] = field(default_factory=dict)
    _codes: dict[str, Code | None] = field(default_factory=dict)
    _whole: dict[str, tuple[Sequence[InputFile], Extent, Total]] = field(default_factory=dict)
    """Inputs that every partition reads in full."""
    _producers: dict[str, str] = field(default_factory=dict)
    """The pipelines that produce the shared datasets, by input."""
    _reads: Totals = field(default_factory=Totals)
    _makes: Totals = field(default_factory=Totals)

    def planned(self, targets: Iterable[Target]) -> list[LineageAsset]:
        """Describe what a run will make: each asset once, regardless of its number of
        partitions."""
        found = []
        for name in dict.fromkeys(target.asset for target in targets):
            result = AssetResult(name=name, status=Status.PENDING)
            described = LineageAsset(result=result, folder=f"{self.folder}/{name}")
            found.append(self._defined(Target(name), described))
        return found

    def starting(self, target: Target, attempt: int) -> LineageAsset:
        result = AssetResult.of(target, Status.RUNNING, attempt=attempt)
        return self._defined(target, LineageAsset(result=result, folder=self._place(target)))

    def ended(
        self,
        target: Target,
        result: AssetResult,
        pins: Mapping[str, Pin],
        place: Path | None = None,
        rejections: Sequence[str] | None = None,
    ) -> LineageAsset:
        """Describe a target that ended. `place` is where its files are now, if not yet in the
        folder that they are for."""
        home, folder = self.definitions.settings.home, self._place(target)
        now = place or home / folder
        described = self._defined(target, described_by_folder(now, folder, result))
        counts = result.status not in WITHOUT_EVENTS
        inputs = [self._read(one, pins.get(one.called), counts) for one in described.inputs]
        measured = result.column_metrics
        inputs = [replace(one, columns=measured.get(one.called, {})) for one in inputs]
        described = replace(described, inputs=inputs)
        if target in self._ended:  # its first result could not be recorded
            for one in self._ended[target].made:
                self._makes.take_back(one.identity)
        if result.status in (Status.SUCCESS, Status.WAITING):
            described = self._made(described, home / folder, now)
            described = self._with_rejections(described, rejections)
        self._ended[target] = self._small(described)
        return described

    def all_of(
        self, results: Mapping[Target, AssetResult], commit: Commit | None
    ) -> list[LineageAsset]:
        """Describe all targets at the end of the run, with the versions that were published. A
        target that an earlier process made is described by its files."""
        home = self.definitions.settings.home
        versions = {move.dataset: move.ordinal for move in commit.moves} if commit else {}
        found = []
        for target, result in results.items():
            if result.status in WITHOUT_EVENTS:
                continue
            described = self._ended.get(target)
            if described is None:
                folder = self._place(target)
                described = self._small(described_by_folder(home / folder, folder, result))
            found.append(self._published(replace(described, result=result), versions))
        return with_totals(found, self._reads, self._makes)

    def _place(self, target: Target) -> str:
        return f"{self.folder}/{folder_of(self.definitions.pipeline.assets, target)}"

    def _published(self, described: LineageAsset, versions: Mapping[str, int]) -> LineageAsset:
        dataset = self.definitions.pipeline.assets[described.result.name].dataset
        output = described.output and replace(described.output, version=versions.get(dataset))
        beside = {
            name: replace(one, version=versions.get(name))
            for name, one in described.registered.items()
        }
        return replace(described, output=output, registered=beside)

    def _small(self, described: LineageAsset) -> LineageAsset:
        """Condense a target, and share one plan among the partitions of an asset: they differ only
        in the partition."""
        plan = described.plan and self._plans.setdefault(described.result.name, described.plan)
        return small(replace(described, plan=plan))

    # ---- by its definition ----------------------------------------------------------------------

    def _defined(self, target: Target, described: LineageAsset) -> LineageAsset:
        pipeline = self.definitions.pipeline
        asset = pipeline.assets[target.asset]
        schema = self._schemas.get(asset.name)
        return replace(
            described,
            inputs=[self._input(name) for name in asset.inputs],
            output=self.run.dataset(asset.name, asset.dataset, schema=schema),
            plan=self._plan(asset, target),
            code=self._code(asset),
            meta=asset.meta,
            reads=[label(reading) for reading in readings(pipeline, target)],
        )

    def _code(self, asset: Asset) -> Code | None:
        """Return the asset's code as it was when first described: the pipeline is also loaded
        once. A stored plan has none: the files may declare another pipeline."""
        if self.definitions.workspace.stored is not None:
            return None
        if asset.name not in self._codes:
            settings = self.definitions.settings
            self._codes[asset.name] = code_of_asset(asset, settings.home / settings.pipelines)
        return self._codes[asset.name]

    def _plan(self, asset: Asset, target: Target) -> Frame:
        if self.definitions.is_checked and (target.partition or not asset.partitioned_by):
            return self.definitions.checked().plan(target)
        return asset.plan()

    @property
    def _schemas(self) -> Mapping[str, types.StructType]:
        return self.definitions.checked().schemas if self.definitions.is_checked else {}

    def _input(self, name: str) -> LineageDataset:
        pipeline, schema = self.definitions.pipeline, self._schemas.get(name)
        if name in pipeline.sources:
            return of_source(pipeline.sources[name], self.definitions.settings.home, schema)
        if name in pipeline.shared:
            return self._shared(pipeline.shared[name], schema)
        asset = pipeline.assets.get(name)
        return self.run.dataset(name, asset.dataset if asset else name, schema=schema)

    def _shared(self, shared: SharedDataset, schema: types.StructType | None) -> LineageDataset:
        """Describe a dataset of another pipeline as its producer's events describe it."""
        if shared.name not in self._producers:
            self._producers[shared.name] = self._producer(shared)
        full = f"{self._producers[shared.name]}.{shared.dataset}"
        namespace = self.run.namespace
        return LineageDataset(called=shared.name, namespace=namespace, name=full, schema=schema)

    def _producer(self, shared: SharedDataset) -> str:
        definitions = self.definitions
        if definitions.known_shared is not None:
            return definitions.known_shared[shared.name].dataset.owner.project
        owner = definitions.settings.owner
        found = definitions.database.durably(lambda tx: find_shared(tx, owner, shared))
        return found.owner.project

    # ---- by its files ---------------------------------------------------------------------------

    @cached_property
    def _hidden(self) -> frozenset[str]:
        plans = [asset.plan() for asset in self.definitions.pipeline.assets.values()]
        return hidden_columns(plans, self.definitions.settings.redacted)

    def _read(self, one: LineageDataset, pin: Pin | None, counts: bool) -> LineageDataset:
        if pin is None:
            return one
        extent, described = self._extent_of(pin)
        if counts:
            self._reads.add(one.identity, extent)
        since = [fragment.since for fragment in pin.fragments if fragment.since is not None]
        if not since:
            return replace(one, extent=described)
        return replace(one, extent=described, version=max(since))

    def _extent_of(self, pin: Pin) -> tuple[Extent, Extent | Total]:
        """Measure the pinned files, once by file and once as the total that an event reports."""
        name, files = pin.reading.name, pin.files.files
        source = self.definitions.pipeline.sources.get(name)
        parquet = (source is None or source.format == "parquet") and _intact(pin)
        if pin.reading.partition is not None:
            extent = self._extent([file.path for file in files], parquet)
            return extent, extent
        known = self._whole.get(name)
        if known is None or known[0] != files:
            extent = self._extent([file.path for file in files], parquet)
            known = self._whole[name] = files, extent, total([extent]) or Total()
        return known[1:]

    def _made(self, described: LineageAsset, place: Path, now: Path) -> LineageAsset:
        """Describe what was made. The files are in the folder `now`, and will be in `place`."""

        def with_files(one: LineageDataset, folder: str) -> LineageDataset:
            paths = [str(path) for path in sorted((now / folder).glob("*.parquet"))]
            extent = self._extent(paths, True)
            self._makes.add(one.identity, extent)
            return replace(one, extent=extent, location=str(place / folder))

        beside = {
            str(one["register_as"]): with_files(
                self.run.dataset(str(one["register_as"]), str(one["register_as"])),
                f"outputs/{one['id']}",
            )
            for one in working_run.outputs_in(now)
            if one["register_as"] is not None
        }
        output = described.output and with_files(described.output, "output")
        return replace(described, output=output, registered=beside)

    def _with_rejections(
        self, described: LineageAsset, paths: Sequence[str] | None
    ) -> LineageAsset:
        name = self.definitions.pipeline.assets[described.result.name].publish_rejections
        if name is None or paths is None:
            return described
        extent = self._extent(list(paths), True)
        columns = [types.StructField(column, types.StringType()) for column in COLUMNS]
        rejected = types.StructType(columns)
        one = self.run.dataset(name, name, schema=rejected, extent=extent)
        self._makes.add(one.identity, extent)
        return replace(described, registered={**described.registered, name: one})

    def _extent(self, paths: list[str], parquet: bool) -> Extent:
        if parquet and len(paths) <= MANY:
            return extents(paths, self._hidden)
        return sizes(paths)


def code_of_asset(asset: Asset, pipelines: Path) -> Code | None:
    """Return the asset's function, or the YAML file that names it; None if neither can be read."""
    function = asset.written.function
    if isinstance(function, CompiledPlan) and function.code is not None:
        return shown_code("PYTHON", function.code)
    names = re.compile(rf"^\s+[\"']?{re.escape(asset.name)}[\"']?\s*:", re.M)
    for path in sorted(p for p in pipelines.glob("*") if p.suffix in YAML):
        if names.search(text := path.read_text(encoding="utf-8")):
            return shown_code("YAML", text)
    return None


def _intact(pin: Pin) -> bool:
    """False if a file was changed since it was written: then its footer says nothing about the
    rows."""
    try:
        pin.files.check_recorded()
    except DatasetDamaged:
        return False
    return True
