"""Facets of OpenLineage events as plain JSON, the producer of the events, and the states of a run.
Facets contain no values of rows.

Tallyman's own facets have a JSON Schema in `schemas/`, which their `_schemaURL` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from importlib import metadata
from typing import Any

from tallyman.engine.spark.secrets import HIDDEN, SECRET, without_assigned

Facet = dict[str, Any]
PRODUCER = f"urn:tallyman:{metadata.version('tallyman')}"
OWN = "urn:tallyman:facet:{name}:1-0-0"
EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
PUBLISHED = "https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}"
VERSIONS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "DataQualityMetricsDatasetFacet": "1-0-1",
    "DataQualityMetricsInputDatasetFacet": "1-0-3",
    "DatasetVersionDatasetFacet": "1-0-1",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "NominalTimeRunFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ParentRunFacet": "1-2-0",
    "ProcessingEngineRunFacet": "1-1-1",
    "SQLJobFacet": "1-1-0",
    "SchemaDatasetFacet": "1-2-0",
    "SourceCodeJobFacet": "1-0-1",
    "SymlinksDatasetFacet": "1-0-1",
    "TagsJobFacet": "1-0-0",
}
"""The published facets that we use, with the version of their schema."""


class RunState(Enum):
    """The state of a run or target in an event."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"
    FAIL = "FAIL"


def facet(name: str, /, **values: Any) -> Facet:
    """Build a facet: a published one, or one of our own. Values that are None are left out."""
    version = VERSIONS.get(name)
    schema = PUBLISHED.format(version=version, name=name) if version else OWN.format(name=name)
    return {"_producer": PRODUCER, "_schemaURL": schema, **known(**values)}


def known(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def notes_facet(meta: Mapping[str, str]) -> Facet:
    """Build the tags of a job from the notes of its asset, without secrets."""
    tags = [
        {
            "key": name,
            "value": HIDDEN if SECRET.search(name) else without_assigned(value),
            "source": "TALLYMAN",
        }
        for name, value in meta.items()
    ]
    return facet("TagsJobFacet", tags=tags)
