"""The declarations a test runs: an asset with what it reads, or a whole pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from tallyman.control.compile import load
from tallyman.control.compile.compiling import columns_as_data, compile_folder, compiled_pipeline
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, Source
from tallyman.domain.version.table import Table
from tallyman.errors import DefinitionError, Problem, UsageError

Declaration: TypeAlias = Source | Asset | Table
PipelineLike: TypeAlias = Pipeline | str | PathLike[str] | Iterable[Declaration]

ADVICE = "Run it with `run_pipeline`, which takes a folder of pipelines or a list of declarations."


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
