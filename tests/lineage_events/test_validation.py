"""The validator itself: what is no event is refused, at whatever depth the mistake is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import ValidationError

from tallyman.control.openlineage.events import asset_event
from tallyman.control.openlineage.facets import RunState
from tests.lineage_events.described import STARTED, lineage_asset, lineage_run
from tests.lineage_events.validation import facets, valid

Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    asset = lineage_asset(tmp_path_factory.mktemp("told"))
    return dict(asset_event(lineage_run(), asset, RunState.COMPLETE, STARTED).body)


@pytest.fixture
def event(whole: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(whole)


def _set(place: Place, value: object) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        at: Any = event
        for name in place[:-1]:
            at = at[name]
        assert place[-1] in at if isinstance(at, dict) else True
        at[place[-1]] = value

    return change


def _without(*place: str | int) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        at: Any = event
        for name in place[:-1]:
            at = at[name]
        del at[place[-1]]

    return change


RUN_FACETS, JOB_FACETS = ("run", "facets"), ("job", "facets")
OUTPUT = ("outputs", 0)
MISTAKES = {
    "no time": _without("eventTime"),
    "no run": _without("run", "runId"),
    "no such day": _set(("eventTime",), "2024-02-31T00:00:00Z"),
    "no zone": _set(("eventTime",), "2024-03-01T00:00:00"),
    "no uuid": _set(("run", "runId"), "run-1"),
    "no uri": _set(("producer",), "tallyman"),
    "a facet without producer": _without(*RUN_FACETS, "nominalTime", "_producer"),
    "parent without run": _without(*RUN_FACETS, "parent", "run"),
    "no query": _without(*JOB_FACETS, "sql", "query"),
    "a minimum is a number": _set(
        (*OUTPUT, "facets", "dataQualityMetrics", "columnMetrics", "segments", "min"), "0"
    ),
    "a version is text": _set((*OUTPUT, "facets", "version", "datasetVersion"), 7),
    "more errors than records": _set((*OUTPUT, "facets", "tallyman_errors", "error_rate"), 2),
    "an unknown fate": _set((*RUN_FACETS, "tallyman_ledger", "fates"), {"LOST": 1}),
    "a hash that is none": _set((*RUN_FACETS, "tallyman_run", "config_hash"), "sha256:1"),
    "a field that nobody declared": _set((*RUN_FACETS, "tallyman_run"), {"row": 1}),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_found(
    event: dict[str, Any], mistake: Callable[[dict[str, Any]], None]
) -> None:
    valid(event)
    mistake(event)
    with pytest.raises(ValidationError):
        valid(event)


def test_a_facet_whose_schema_is_not_known_is_refused(event: dict[str, Any]) -> None:
    event["run"]["facets"]["nominalTime"]["_schemaURL"] = "urn:somebody:facet:1-0-0"
    with pytest.raises(Exception, match="urn:somebody"):
        valid(event)


def test_every_facet_is_looked_at(event: dict[str, Any]) -> None:
    places = {place.rpartition(".")[2] for place, _ in facets(event)}
    assert places == {
        "nominalTime",
        "parent",
        "processing_engine",
        "tallyman_run",
        "tallyman_ledger",
        "jobType",
        "sourceCode",
        "sql",
        "schema",
        "version",
        "symlinks",
        "columnLineage",
        "dataQualityMetrics",
        "outputStatistics",
        "tallyman_errors",
    }
