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

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    OutputDatasetFacet,
    column_lineage_dataset,
    data_quality_metrics_dataset,
    data_quality_metrics_input_dataset,
    dataset_version_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from tallyman.control.openlineage.facets import facet
from tallyman.control.openlineage.totals import Total, total
from tallyman.domain.account.column_metrics import Bound, MetricsByColumn
from tallyman.domain.definition.column_lineage import ColumnLineage, Origin
from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.warehouse.footers import Extent

FILES = "file"
"""The namespace for files, as in Spark's own integration."""
_PATTERN = re.compile(r"[*?\[{]")
_Field = schema_dataset.SchemaDatasetFacetFields


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageDataset:
    """The known facts about a dataset that a target reads or makes."""

    called: str
    """The asset's name for it: the name of an input, or its own."""
    namespace: str
    name: str
    schema: StructType | None = None
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


def of_source(
    source: Source, home: Path, schema: StructType | None = None, extent: Extent | None = None
) -> LineageDataset:
    """Identify a source by the absolute path of its folder or file."""
    full = os.path.normpath(os.path.join(home, source.path.removeprefix("file://")))
    root = _PATTERN.split(full)[0]
    name = full if root == full else root.rpartition("/")[0]
    return LineageDataset(
        called=source.name, namespace=FILES, name=name, schema=schema, extent=extent
    )


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


# ---- client types -------------------------------------------------------------------------------


def input_dataset(one: LineageDataset) -> InputDataset:
    found = InputDataset(namespace=one.namespace, name=one.name, facets=_facets(one))
    if one.extent is not None or one.rows is not None:
        module = data_quality_metrics_input_dataset
        metrics = facet(
            module.DataQualityMetricsInputDatasetFacet,
            **_metrics(one, module.ColumnMetrics),
        )
        found.inputFacets = {"dataQualityMetrics": metrics}
    return found


def output_dataset(one: LineageDataset, more: Mapping[str, DatasetFacet]) -> OutputDataset:
    facets = {**_facets(one), **more}
    output_facets: dict[str, OutputDatasetFacet] = {}
    if one.extent is not None or one.rows is not None:
        module = data_quality_metrics_dataset
        facets["dataQualityMetrics"] = facet(
            module.DataQualityMetricsDatasetFacet, **_metrics(one, module.ColumnMetrics)
        )
        output_facets["outputStatistics"] = facet(
            output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
            rowCount=one.row_count,
            size=one.extent.bytes if one.extent else None,
            fileCount=len(one.extent.files) if one.extent else None,
        )
    return OutputDataset(
        namespace=one.namespace, name=one.name, facets=facets, outputFacets=output_facets
    )


def _facets(one: LineageDataset) -> dict[str, DatasetFacet]:
    found: dict[str, DatasetFacet] = {}
    if one.schema is not None:
        found["schema"] = schema_facet(one.schema)
    if one.version is not None:
        kind = dataset_version_dataset.DatasetVersionDatasetFacet
        found["version"] = facet(kind, datasetVersion=str(one.version))
    if one.location is not None:
        place = symlinks_dataset.Identifier(namespace=FILES, name=one.location, type="LOCATION")
        found["symlinks"] = facet(symlinks_dataset.SymlinksDatasetFacet, identifiers=[place])
    return found


def _metrics(one: LineageDataset, kind: type) -> dict[str, object]:
    columns = one.extent.columns if one.extent else {}
    measured = {
        name: kind(
            nullCount=each.nulls,
            distinctCount=each.approx_distinct,
            min=_number(each.min),
            max=_number(each.max),
            quantiles=None,
        )
        for name, each in one.columns.items()
    }
    return {
        "rowCount": one.row_count,
        "bytes": one.extent.bytes if one.extent else None,
        "fileCount": len(one.extent.files) if one.extent else None,
        "columnMetrics": measured
        | {
            name: kind(nullCount=each.nulls, min=each.least, max=each.most, quantiles=None)
            for name, each in columns.items()
        },
    }


def _number(bound: Bound) -> float | None:
    """Return a bound that is a number; dates and times are values of rows."""
    try:
        return None if bound is None else float(bound)
    except ValueError:
        return None


# ---- schema -------------------------------------------------------------------------------------


def schema_facet(schema: StructType) -> schema_dataset.SchemaDatasetFacet:
    return facet(schema_dataset.SchemaDatasetFacet, fields=_struct(schema))


def _struct(schema: StructType) -> list[_Field]:
    return [_field(each, number) for number, each in enumerate(schema.fields, 1)]


def _field(each: StructField, number: int) -> _Field:
    return _named(each.name, each.dataType, number)


def _named(name: str, kind: DataType, number: int | None = None) -> _Field:
    """Describe a field; arrays and maps are nested as in Spark's integration."""
    inner: list[_Field] | None = None
    match kind:
        case StructType():
            inner = _struct(kind)
        case ArrayType():
            inner = [_named("_element", kind.elementType)]
        case MapType():
            inner = [_named("key", kind.keyType), _named("value", kind.valueType)]
    text = kind.simpleString() if inner is None else kind.typeName()
    return _Field(name=name, type=text, ordinal_position=number, fields=inner)


# ---- column lineage -----------------------------------------------------------------------------


def column_lineage_facet(
    lineage: ColumnLineage, inputs: Iterable[LineageDataset]
) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    """Build the facet, with each input named by its dataset."""
    names = {one.called: one.identity for one in inputs}
    columns = {
        name: column_lineage_dataset.Fields(inputFields=_origins(origins, names))
        for name, origins in lineage.columns.items()
    }
    kind = column_lineage_dataset.ColumnLineageDatasetFacet
    return facet(kind, fields=columns, dataset=_origins(lineage.rows, names))


def _origins(
    origins: Iterable[Origin], names: Mapping[str, tuple[str, str]]
) -> list[column_lineage_dataset.InputField]:
    """List each input column once, with all its transformations."""
    ways: dict[tuple[str, str], list[column_lineage_dataset.Transformation]] = {}
    for origin in origins:
        way = column_lineage_dataset.Transformation(type=origin.way.type, subtype=origin.way.value)
        ways.setdefault((origin.input, origin.column), []).append(way)
    return [
        column_lineage_dataset.InputField(
            namespace=names[name][0], name=names[name][1], field=column, transformations=listed
        )
        for (name, column), listed in ways.items()
    ]
