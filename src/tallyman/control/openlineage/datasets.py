"""Datasets of an OpenLineage event: their names and facets.

Events contain counts of rows and values and the range of numeric columns, but no other values;
nothing about redacted columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyman.control.openlineage.facets import Facet, facet, known
from tallyman.control.openlineage.totals import Total, total
from tallyman.domain.account.column_metrics import Bound, MetricsByColumn
from tallyman.domain.definition.column_lineage import ColumnLineage, Origin
from tallyman.domain.pipeline.pipeline import Source
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import types

    from tallyman.engine.warehouse.footers import Extent
else:
    types = OnDemand("pyspark.sql.types")

FILES = "file"
"""The namespace for files, as in Spark's own integration."""
_PATTERN = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageDataset:
    """The known facts about a dataset that a target reads or makes."""

    called: str
    """The asset's name for it: the name of an input, or its own."""
    namespace: str
    name: str
    schema: types.StructType | None = None
    version: int | None = None
    location: str | None = None
    """The folder of its files, if the name does not say it."""
    extent: Extent | Total | None = None
    rows: int | None = None
    """The number of rows, if the files do not say it."""
    columns: MetricsByColumn = field(default_factory=dict)
    """Metrics that the door measured, if the files do not have any."""

    @property
    def identity(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def row_count(self) -> int | None:
        counted = None if self.extent is None else self.extent.rows
        return self.rows if counted is None else counted

    def with_rows(self, rows: int | None) -> LineageDataset:
        return replace(self, rows=self.rows if rows is None else rows)


def of_source(source: Source, home: Path, schema: types.StructType | None = None) -> LineageDataset:
    """Identify a source by the absolute path of its folder or file."""
    full = os.path.normpath(os.path.join(home, source.path.removeprefix("file://")))
    root = _PATTERN.split(full)[0]
    name = full if root == full else root.rpartition("/")[0]
    return LineageDataset(called=source.name, namespace=FILES, name=name, schema=schema)


def merged(datasets: Iterable[LineageDataset]) -> list[LineageDataset]:
    """Merge descriptions of the same dataset from several targets."""
    found: dict[tuple[str, str], list[LineageDataset]] = {}
    for one in datasets:
        found.setdefault(one.identity, []).append(one)
    return [_whole(same) for same in found.values()]


def _whole(same: Sequence[LineageDataset]) -> LineageDataset:
    first = same[0]
    known = [one.extent for one in same if one.extent is not None]
    rows = {one.rows for one in same}
    return replace(
        first,
        extent=known[0] if len(known) == 1 else total(known),
        version=max((one.version for one in same if one.version is not None), default=None),
        rows=rows.pop() if len(rows) == 1 else None,
        schema=next((one.schema for one in same if one.schema), None),
    )


# ---- facets -------------------------------------------------------------------------------------


def input_dataset(one: LineageDataset) -> dict[str, Any]:
    found: dict[str, Facet] = {}
    if one.extent is not None or one.rows is not None:
        kind = "DataQualityMetricsInputDatasetFacet"
        found["dataQualityMetrics"] = facet(kind, **_metrics(one))
    return {
        "namespace": one.namespace,
        "name": one.name,
        "facets": _facets(one),
        "inputFacets": found,
    }


def output_dataset(one: LineageDataset, more: Mapping[str, Facet]) -> dict[str, Any]:
    facets = {**_facets(one), **more}
    output_facets: dict[str, Facet] = {}
    if one.extent is not None or one.rows is not None:
        facets["dataQualityMetrics"] = facet("DataQualityMetricsDatasetFacet", **_metrics(one))
        output_facets["outputStatistics"] = facet(
            "OutputStatisticsOutputDatasetFacet",
            rowCount=one.row_count,
            size=one.extent.bytes if one.extent else None,
            fileCount=len(one.extent.files) if one.extent else None,
        )
    return {
        "namespace": one.namespace,
        "name": one.name,
        "facets": facets,
        "outputFacets": output_facets,
    }


def _facets(one: LineageDataset) -> dict[str, Facet]:
    found: dict[str, Facet] = {}
    if one.schema is not None:
        found["schema"] = schema_facet(one.schema)
    if one.version is not None:
        found["version"] = facet("DatasetVersionDatasetFacet", datasetVersion=str(one.version))
    if one.location is not None:
        place = {"namespace": FILES, "name": one.location, "type": "LOCATION"}
        found["symlinks"] = facet("SymlinksDatasetFacet", identifiers=[place])
    return found


def _metrics(one: LineageDataset) -> dict[str, object]:
    columns = one.extent.columns if one.extent else {}
    measured = {
        name: known(
            nullCount=each.nulls,
            distinctCount=each.approx_distinct,
            min=_number(each.min),
            max=_number(each.max),
        )
        for name, each in one.columns.items()
    }
    return {
        "columnMetrics": measured
        | {
            name: known(nullCount=each.nulls, min=each.least, max=each.most)
            for name, each in columns.items()
        },
        "rowCount": one.row_count,
        "bytes": one.extent.bytes if one.extent else None,
        "fileCount": len(one.extent.files) if one.extent else None,
    }


def _number(bound: Bound) -> float | None:
    """Return a bound that is a number; dates and times are values of rows."""
    try:
        return None if bound is None else float(bound)
    except ValueError:
        return None


# ---- schema -------------------------------------------------------------------------------------


def schema_facet(schema: types.StructType) -> Facet:
    return facet("SchemaDatasetFacet", fields=_struct(schema))


def _struct(schema: types.StructType) -> list[dict[str, Any]]:
    return [_named(each.name, each.dataType, number) for number, each in enumerate(schema, 1)]


def _named(name: str, kind: types.DataType, number: int | None = None) -> dict[str, Any]:
    """Describe a field; arrays and maps are nested as in Spark's integration."""
    inner: list[dict[str, Any]] | None = None
    match kind:
        case types.StructType():
            inner = _struct(kind)
        case types.ArrayType():
            inner = [_named("_element", kind.elementType)]
        case types.MapType():
            inner = [_named("key", kind.keyType), _named("value", kind.valueType)]
    text = kind.simpleString() if inner is None else kind.typeName()
    return known(name=name, type=text, ordinal_position=number, fields=inner)


# ---- column lineage -----------------------------------------------------------------------------


def column_lineage_facet(lineage: ColumnLineage, inputs: Iterable[LineageDataset]) -> Facet:
    """Build the facet, with each input named by its dataset."""
    names = {one.called: one.identity for one in inputs}
    columns = {
        name: {"inputFields": _origins(origins, names)} for name, origins in lineage.columns.items()
    }
    rows = _origins(lineage.rows, names)
    return facet("ColumnLineageDatasetFacet", fields=columns, dataset=rows)


def _origins(
    origins: Iterable[Origin], names: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """List each input column once, with all its transformations."""
    ways: dict[tuple[str, str], list[dict[str, str]]] = {}
    for origin in origins:
        way = {"type": origin.way.type, "subtype": origin.way.value}
        ways.setdefault((origin.input, origin.column), []).append(way)
    return [
        {
            "namespace": names[name][0],
            "name": names[name][1],
            "field": column,
            "transformations": listed,
        }
        for (name, column), listed in ways.items()
    ]
