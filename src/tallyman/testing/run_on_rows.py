"""One run of a test: given rows become files, and the engine makes the assets from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.control.bind.pinned_files import Pin
from tallyman.control.pipeline.check import Definition, check
from tallyman.control.pipeline.shared import SharedInput
from tallyman.control.target.make import Maker
from tallyman.control.target.target_inputs import TargetInputs
from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, Source
from tallyman.domain.pipeline.target import PLACEHOLDER, Reading, Target, folder_of, readings
from tallyman.domain.pipeline.threshold import ANYTHING, Thresholds
from tallyman.engine.asset.work import Folders, Work
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.listing import InputFiles, list_files, listed_files
from tallyman.errors import UsageError
from tallyman.errors.wording import nearest
from tallyman.testing.given import Given
from tallyman.testing.made_asset import MadeAsset

DECLARED = "declared"


def limits_of(given: Thresholds | str | Mapping[str, object] | None) -> Thresholds | None:
    """Read how many rejections the assets of a run tolerate; None: what each asset declares. Of
    three rows, one is a third: unless a test asks for limits, there are none."""
    if given == DECLARED:
        return None
    return ANYTHING if given is None else Thresholds.of(given)


@dataclass
class RunOnRows:
    pipeline: Pipeline
    chosen: tuple[str, ...]
    given: Mapping[str, Given]
    partition: str | None
    limits: Thresholds | None
    _outputs: dict[str, InputFiles] = field(default_factory=dict)
    """The rows of assets and tables, given or made."""

    # ---- whether it can be made ------------------------------------------------------------

    def check(self) -> None:
        """Raise UsageError, with the names that exist, before Spark starts."""
        pipeline = self.pipeline
        known = {**pipeline.sources, **pipeline.tables, **pipeline.shared, **pipeline.assets}
        for name in self.given:
            if name not in known:
                raise UsageError(f"there is no input {name!r}. {_meant(name, known)}")
        for name in self.chosen:
            if name not in self.pipeline.assets:
                raise UsageError(
                    f"there is no asset {name!r}. {_meant(name, self.pipeline.assets)}"
                )
            if name in self.given:
                raise UsageError(f"asset {name} is to be made, and rows of it are given")
        missing = sorted(self._needed() - set(self.given) - set(self.pipeline.assets))
        if missing:
            raise UsageError(f"no rows are given for {', '.join(missing)}; [] is an empty input")
        if all(target.partition is None for target in self._targets()) and self.partition:
            raise UsageError(
                f"no asset that is made is partitioned: {self.partition!r} says nothing"
            )

    def _needed(self) -> set[str]:
        """List everything that is read or made. What given rows would be made from is not."""
        found, todo = set[str](), list(self.chosen)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                asset = self.pipeline.assets.get(name)
                todo += asset.inputs if asset and name not in self.given else ()
        return found

    def _targets(self) -> list[Target]:
        """List the targets in the order in which they are made."""
        needed = self._needed() - set(self.given)
        order = [name for name in self.pipeline.order() if name in needed]
        return [Target(name, self._key(self.pipeline.assets[name])) for name in order]

    def _key(self, asset: Asset) -> str | None:
        declared = asset.partitioned_by
        if declared is None:
            return None
        if self.partition is None:
            raise UsageError(
                f"asset {asset.name} is partitioned by {declared.column}: say partition="
            )
        return declared.parse(self.partition)

    # ---- making ----------------------------------------------------------------------------

    def make(self, spark: SparkSession, home: Path, run: RunIdentity) -> dict[str, MadeAsset]:
        """Make all targets, each from what is given or was made before it; return them by asset."""
        shared = self._shared(spark, home)
        definition = check(spark, self._with_types(home), self.chosen, home, shared)
        self._write(definition, home)
        made: dict[str, MadeAsset] = {}
        for target in self._targets():
            made[target.asset] = self._make(Maker(spark, definition), target, home, run)
        return made

    def _make(self, maker: Maker, target: Target, home: Path, run: RunIdentity) -> MadeAsset:
        work = self._work(maker.definition, target, home, run)
        asset, folders = work.asset, work.folders
        pins = {r.name: Pin(r, self._files(r, home)) for r in readings(self.pipeline, target)}
        making = maker.make(work, TargetInputs(pins))
        if making.error is not None:
            raise making.error
        output = {file.name: str(file) for file in sorted(folders.output.rglob("*.parquet"))}
        self._outputs[asset.name] = listed_files(asset.name, output, home)
        fates = {fate.value: count for fate, count in making.result.fates.items() if count}
        return MadeAsset(asset.name, fates, making.asks, asset, target, folders.result)

    def _work(self, definition: Definition, target: Target, home: Path, run: RunIdentity) -> Work:
        asset = self.pipeline.assets[target.asset]
        place = folder_of(self.pipeline.assets, target)
        folders = Folders(home / "made" / place, home / "scratch" / place, home)
        for folder in (folders.result, folders.scratch):
            folder.mkdir(parents=True)
        return Work(
            target=target,
            asset=asset,
            plan=definition.plan(target),
            run=run,
            thresholds=self.limits or asset.thresholds or Thresholds(),
            evidence=asset.evidence,
            folders=folders,
            redaction=Redaction(),
        )

    # ---- files -----------------------------------------------------------------------------

    def _with_types(self, home: Path) -> Pipeline:
        """Write the sources whose types are in their files: a pipeline is checked with types."""
        sources = dict(self.pipeline.sources)
        for name, source in sources.items():
            if source.schema is None and name in self.given:
                self.given[name].write_parquet(home / self._path(source), None)
                # A source with its partition in the path stays one.
                file = PLACEHOLDER if PLACEHOLDER in source.path else name
                sources[name] = replace(source, path=f"given/{name}/{file}.parquet")
        return replace(self.pipeline, sources=sources)

    def _shared(self, spark: SparkSession, home: Path) -> dict[str, SharedInput]:
        """Write the rows of other pipelines' datasets: their types are those of the rows."""
        found = {}
        for name in self.pipeline.shared:
            if name in self.given:
                path = home / "given" / name / f"{name}.parquet"
                self.given[name].write_parquet(path, None)
                found[name] = SharedInput(spark.read.parquet(str(path)).schema)
        return found

    def _path(self, source: Source) -> str:
        return f"given/{source.name}/{source.name}.{source.format}"

    def _write(self, definition: Definition, home: Path) -> None:
        for name, rows in self.given.items():
            if name not in definition.schemas:
                continue  # nothing that is made reads it
            schema, source = definition.schemas[name], self.pipeline.sources.get(name)
            if source is None:
                path = home / "given" / name / f"{name}.parquet"
                rows.write_parquet(path, schema)
                self._outputs[name] = listed_files(name, {path.name: str(path)}, home)
            elif source.format != "parquet":
                rows.write_lines(home / self._path(source), source, schema.names)
            elif source.schema is not None:
                rows.write_parquet(home / self._path(source), schema)

    def _files(self, reading: Reading, home: Path) -> InputFiles:
        if not reading.of_source:
            return self._outputs[reading.name]
        source = self.pipeline.sources[reading.name]
        return list_files(source.name, self._path(source), home)


def _meant(name: str, known: Mapping[str, object]) -> str:
    near = nearest(name, known)
    return f"Did you mean {near!r}?" if near else f"There are {', '.join(sorted(known))}."
