"""Check a pipeline completely, with the plan of each asset, before any data is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tallyman.control.pipeline.outputs import output_problems
from tallyman.control.pipeline.shared import SharedInput
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import accounted_inputs, loading
from tallyman.domain.definition.step import Expect, Filter
from tallyman.domain.pipeline.partition import encode
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.domain.pipeline.target import PLACEHOLDER, Reading, Target, readings
from tallyman.engine.expressions.column_names import quoted
from tallyman.engine.plan.check import check_asset, parsed_schema
from tallyman.engine.source.open import declared_schema
from tallyman.errors import DefinitionError, Problem, TallymanError, UsageError

NONE_SHARED: Mapping[str, SharedInput] = {}


@dataclass(frozen=True, slots=True)
class Definition:
    """A checked pipeline: the plan of each asset and the schema of everything."""

    pipeline: Pipeline
    plans: Mapping[str, Frame]
    schemas: Mapping[str, StructType]
    shared: Mapping[str, SharedInput] = field(default_factory=dict)

    def key_of(self, name: str) -> tuple[str, ...]:
        """Return the key of an input that is no source."""
        if name in self.shared:
            return self.shared[name].key
        return (self.pipeline.tables.get(name) or self.pipeline.assets[name]).key

    def plan(self, target: Target) -> Frame:
        if target.partition is None:
            return self.plans[target.asset]
        return partition_plan(self.pipeline, target, self.schemas)


@dataclass(frozen=True, slots=True)
class Examined:
    """The result of a check: the definition as far as it is sound, and every mistake."""

    definition: Definition
    problems: list[Problem]
    unreadable: Mapping[str, TallymanError]
    """Sources whose schema is in their files, and why those cannot be read."""

    @property
    def unknown(self) -> dict[str, str]:
        """Map the assets that could not be checked to the input that prevented it."""
        schemas, assets = self.definition.schemas, self.definition.pipeline.assets
        found = {}
        for name, asset in assets.items():
            if missing := [given for given in asset.inputs if given not in schemas]:
                found[name] = missing[0]
        return found


def check(
    spark: SparkSession,
    pipeline: Pipeline,
    needed: Sequence[str],
    project: Path,
    shared: Mapping[str, SharedInput] = NONE_SHARED,
) -> Definition:
    """Check the needed assets and everything they read; raise one error with all mistakes."""
    found = examine(spark, pipeline, needed, project, shared)
    for error in found.unreadable.values():
        raise error
    if found.problems:
        raise DefinitionError(found.problems)
    return found.definition


def examine(
    spark: SparkSession,
    pipeline: Pipeline,
    needed: Sequence[str],
    project: Path,
    shared: Mapping[str, SharedInput] = NONE_SHARED,
) -> Examined:
    """Find all mistakes of the needed assets and everything they read. What reads a dataset of
    another pipeline is checked only if `shared` describes it."""
    wanted = upstream(pipeline, needed)
    problems: list[Problem] = []
    schemas: dict[str, StructType] = {name: one.schema for name, one in shared.items()}
    unreadable: dict[str, TallymanError] = {}
    for name, source in pipeline.sources.items():
        if name in wanted:
            try:
                schemas[name] = declared_schema(spark, source, project)
            except DefinitionError as error:
                problems += error.problems
            except TallymanError as error:
                unreadable[name] = error
    for name, table in pipeline.tables.items():
        if name in wanted:
            schemas[name] = parsed_schema(f"table {name}", table.schema, table.key)
    plans: dict[str, Frame] = {}
    written: dict[str, Frame] = {}
    for name in pipeline.order():
        asset = pipeline.assets[name]
        # An asset that reads something broken cannot be checked; its own mistakes show later.
        if name not in wanted or not set(asset.inputs) <= set(schemas):
            continue
        sample = partial(partition_plan, pipeline, _sample(asset), schemas)
        plan, schema, found = check_asset(spark, asset, schemas, sample)
        problems += found
        if plan is not None:
            written[name] = plan
        if plan is not None and not found:
            plans[name], schemas[name] = plan, schema
    problems += output_problems(pipeline, written, project)
    return Examined(Definition(pipeline, plans, schemas, shared), problems, unreadable)


def upstream(pipeline: Pipeline, needed: Sequence[str]) -> set[str]:
    found, todo = set(needed), list(needed)
    while todo:
        asset = pipeline.assets.get(todo.pop())
        for name in asset.inputs if asset else ():
            if name not in found:
                found.add(name)
                todo.append(name)
    return found


def _sample(asset: Asset) -> Target:
    """Return any partition of the asset: their plans differ only in a literal."""
    declared = asset.partitioned_by
    if declared is None:
        return Target(asset.name)
    return Target(asset.name, encode(declared.start or declared.values[0]))


def partition_plan(pipeline: Pipeline, target: Target, schemas: Mapping[str, StructType]) -> Frame:
    """Build the asset's plan for one partition: the inputs it accounts for are restricted to it."""
    asset = pipeline.assets[target.asset]
    plan = asset.plan()
    if target.partition is None:
        return plan
    accounted = set(accounted_inputs(plan))
    frames = [
        _cut_down(Frame(reading.name), reading, asset, target.partition, pipeline, schemas)
        if reading.name in accounted
        else Frame(reading.name)
        for reading in readings(pipeline, target)
    ]
    return asset(*frames)


def _cut_down(
    frame: Frame,
    reading: Reading,
    asset: Asset,
    key: str,
    pipeline: Pipeline,
    schemas: Mapping[str, StructType],
) -> Frame:
    declared = asset.partitioned_by
    assert declared is not None
    column, literal = declared.column, declared.literal(key)
    name = quoted(column)
    if reading.partition is not None:
        if not reading.of_source or column not in schemas[reading.name].names:
            return frame
        # A record in another partition's files would belong to no run: reject it, do not lose it.
        there = Expect(
            rule="in_its_partition", predicate=f"{name} <=> {literal}", code="WRONG_PARTITION"
        )
        return loading(frame, there)
    if column not in schemas[reading.name].names:
        raise UsageError(
            f"it is partitioned by {column!r}, but its input {reading.name!r} has no such column; "
            f"give it one, or put {PLACEHOLDER} in the path of the source"
        )
    has = Expect(
        rule="has_a_partition",
        predicate=f"{name} IS NOT NULL",
        name=f"{reading.name}_has_a_partition",
    )
    own = Filter(
        predicate=f"{name} = {literal}",
        reason="another partition",
        name=f"{reading.name}_partition",
    )
    return loading(frame, has, own)
