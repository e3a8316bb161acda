"""Tallyman's own OpenLineage facets and the producer of its events. Facets contain no values of
rows.

Each facet has a JSON Schema in `schemas/`, which its `_schemaURL` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any, TypeVar

import attr
from openlineage.client.facet_v2 import BaseFacet, DatasetFacet, RunFacet, tags_job

from tallyman.engine.spark.secrets import HIDDEN, SECRET, without_assigned

PRODUCER = f"urn:tallyman:{metadata.version('tallyman')}"
SCHEMA = "urn:tallyman:facet:{name}:1-0-0"
F = TypeVar("F", bound=BaseFacet)


def facet(kind: type[F], **values: Any) -> F:
    return kind(**values, producer=PRODUCER)


def notes_facet(meta: Mapping[str, str]) -> tags_job.TagsJobFacet:
    """Build the tags of a job from the notes of its asset, without secrets."""
    tags = [
        tags_job.TagsJobFacetFields(
            key=name,
            value=HIDDEN if SECRET.search(name) else without_assigned(value),
            source="TALLYMAN",
        )
        for name, value in meta.items()
    ]
    return facet(tags_job.TagsJobFacet, tags=tags)


@attr.define
class TallymanRunFacet(RunFacet):
    """The hashes a run is bound to; in an event of a target, also which target."""

    run_id: str
    folder_name: str
    config_hash: str | None
    code_version: str | None
    input_dataset: str
    reproducibility_manifest: str
    git_branch: str | None = None
    git_dirty: bool | None = None
    source_hash: str | None = None
    input_hashes: dict[str, str] | None = None
    inputs_total: int | None = None
    asset: str | None = None
    partition: str | None = None
    attempt: int | None = None

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA.format(name="TallymanRunFacet")


@attr.define
class TallymanLedgerFacet(RunFacet):
    """Records in and their fates; in an event of a step, only the fates that the step gave."""

    records_in: int | None
    fates: dict[str, int]
    unaccounted: int | None = None
    balanced: bool | None = None
    proof_method: str | None = None
    ledger_location: str | None = None
    rejections: int | None = None
    rows: dict[str, int] | None = None
    step: str | None = None
    sub_ledgers: list[dict[str, Any]] | None = None

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA.format(name="TallymanLedgerFacet")


@attr.define
class TallymanFailureFacet(RunFacet):
    """Why a run or a target did not finish."""

    reason: str
    message: str
    errorCount: int = 0  # noqa: N815  the seed's own spelling
    threshold: float | None = None

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA.format(name="TallymanFailureFacet")


@attr.define
class TallymanErrorsFacet(DatasetFacet):
    """The number of records that were rejected and are therefore missing from an output."""

    error_count: int
    error_rate: float
    errors_by_type: dict[str, int]
    dlq_location: str

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA.format(name="TallymanErrorsFacet")
