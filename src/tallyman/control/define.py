"""Loading a project's pipelines, and checking them whole before any data is read."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tallyman.domain.frame import Frame
from tallyman.domain.pipeline import Asset, Pipeline, Source, declaring
from tallyman.engine.check import check_asset
from tallyman.engine.open import declared_schema
from tallyman.errors import DefinitionError, Problem, TallymanError


@dataclass(frozen=True, slots=True)
class Definition:
    """A checked pipeline: the plan of each asset and the schema of everything."""

    pipeline: Pipeline
    plans: Mapping[str, Frame]
    schemas: Mapping[str, StructType]


def load(folder: Path) -> Pipeline:
    """Import every Python file of the folder and collect what it declares."""
    if not folder.is_dir():
        raise DefinitionError([Problem(str(folder.name), "the folder of pipelines does not exist")])
    declared: list[Source | Asset] = []
    for path in sorted(folder.glob("*.py")):
        declared += _declared_in(path)
    if not declared:
        raise DefinitionError(
            [Problem(f"{folder.name}/*.py", "no source and no asset is declared")]
        )
    return Pipeline.of(declared)


def _declared_in(path: Path) -> list[Source | Asset]:
    name = f"tallyman_pipelines_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with declaring() as declared:
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except TallymanError as error:
            raise DefinitionError([Problem(path.name, str(error))]) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise DefinitionError([Problem(path.name, f"cannot be imported: {reason}")]) from error
    return declared


def check(
    spark: SparkSession, pipeline: Pipeline, needed: Sequence[str], project: Path
) -> Definition:
    """The plans of the needed assets and of what they read; all mistakes at once."""
    wanted = _upstream(pipeline, needed)
    problems: list[Problem] = []
    schemas: dict[str, StructType] = {}
    for name, source in pipeline.sources.items():
        if name in wanted:
            try:
                schemas[name] = declared_schema(spark, source, project)
            except DefinitionError as error:
                problems += error.problems
    plans: dict[str, Frame] = {}
    for name in pipeline.order():
        asset = pipeline.assets[name]
        # What reads something broken cannot be judged; its own mistakes show on the next try.
        if name not in wanted or not set(asset.inputs) <= set(schemas):
            continue
        plan, schema, found = check_asset(spark, asset, schemas)
        problems += found
        if plan is not None and not found:
            plans[name], schemas[name] = plan, schema
    if problems:
        raise DefinitionError(problems)
    return Definition(pipeline, plans, schemas)


def _upstream(pipeline: Pipeline, needed: Sequence[str]) -> set[str]:
    found, todo = set(needed), list(needed)
    while todo:
        asset = pipeline.assets.get(todo.pop())
        for name in asset.inputs if asset else ():
            if name not in found:
                found.add(name)
                todo.append(name)
    return found
