"""Deliver one event: it is taken, refused permanently, or to be retried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    environment_variables_run,
    parent_run,
    tags_job,
    tags_run,
)

from tallyman.control.delivery import client_log
from tallyman.control.delivery.destination import Destination
from tallyman.control.delivery.destination_text import without
from tallyman.control.delivery.outbox import Trouble

# Status codes about the address, the key or the moment. Any other 4xx is about the event.
NOT_ABOUT_THE_EVENT = (401, 403, 404, 405, 407, 408, 425, 429)
BODY_SHOWN = 200


def deliver(destination: Destination, body: Mapping[str, Any]) -> Trouble | None:
    """Send one event. Return None if the receiver took it or the user's filters dropped it."""
    try:
        event = rebuilt(body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"it is not an OpenLineage event ({type(error).__name__}: {error})"
        return Trouble(without(destination.secrets, reason), refused=True)
    overheard = client_log.overhear()
    overheard.take()
    try:
        destination.client.emit(event)
    except Exception as error:
        return _trouble(destination, error)
    # Some transports log a failure instead of raising it.
    said = overheard.take()
    return Trouble(without(destination.secrets, said)) if said else None


def _trouble(destination: Destination, error: Exception) -> Trouble:
    found = _chain(error)
    answer: Any = next((answer for one in found if (answer := _answer(one)) is not None), None)
    if answer is not None:
        code, body = answer.status_code, answer.content[:BODY_SHOWN].decode(errors="replace")
        reason = f"{code} {answer.reason}" + (f": {body}" if body.strip() else "")
        # An error from the token endpoint is not about the event.
        of_event = answer.request.headers.get("Content-Type") == "application/json"
        refused = of_event and 400 <= code < 500 and code not in NOT_ABOUT_THE_EVENT
        return Trouble(without(destination.secrets, reason), refused=refused)
    if any(isinstance(one, TimeoutError) for one in found):
        return Trouble("no answer in time")
    # The innermost error says what happened; the outer ones repeat the address.
    last = found[-1]
    reason = str(getattr(last, "strerror", None) or last) or type(last).__name__
    return Trouble(without(destination.secrets, reason))


def _answer(error: BaseException) -> Any:
    """Return the HTTP response of the error, if any. (A response with an error status is falsy:
    compare with None.)"""
    found: Any = getattr(error, "response", None)
    return found if hasattr(found, "status_code") else None


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def rebuilt(body: Mapping[str, Any]) -> RunEvent:
    """Rebuild the client's own event type for its filters, tags and transports. Facets stay as
    written, except those that the client reads."""
    run, job = body["run"], body["job"]
    return RunEvent(
        eventTime=body["eventTime"],
        producer=body["producer"],
        eventType=RunState(body["eventType"]) if body.get("eventType") else None,
        run=Run(runId=run["runId"], facets=_facets(run.get("facets"), RUN_FACETS)),
        job=Job(
            namespace=job["namespace"],
            name=job["name"],
            facets=_facets(job.get("facets"), JOB_FACETS),
        ),
        inputs=[InputDataset(**one) for one in body.get("inputs") or ()],
        outputs=[OutputDataset(**one) for one in body.get("outputs") or ()],
    )


def _facets(
    written: Mapping[str, Any] | None, looked_into: Mapping[str, Callable[[dict[str, Any]], object]]
) -> dict[str, Any]:
    found: dict[str, Any] = dict(written or {})
    for name, build in looked_into.items():
        if name in found:
            found[name] = build(found[name])
    return found


def _parent(facet: dict[str, Any]) -> parent_run.ParentRunFacet:
    root = facet.get("root")
    return parent_run.ParentRunFacet(
        run=parent_run.Run(**facet["run"]),
        job=parent_run.Job(**facet["job"]),
        root=root
        and parent_run.Root(
            run=parent_run.RootRun(**root["run"]), job=parent_run.RootJob(**root["job"])
        ),
        producer=facet.get("_producer", ""),
    )


def _run_tags(facet: dict[str, Any]) -> tags_run.TagsRunFacet:
    tags = [tags_run.TagsRunFacetFields(**tag) for tag in facet.get("tags") or ()]
    return tags_run.TagsRunFacet(tags=tags, producer=facet.get("_producer", ""))


def _job_tags(facet: dict[str, Any]) -> tags_job.TagsJobFacet:
    tags = [tags_job.TagsJobFacetFields(**tag) for tag in facet.get("tags") or ()]
    return tags_job.TagsJobFacet(tags=tags, producer=facet.get("_producer", ""))


def _variables(facet: dict[str, Any]) -> environment_variables_run.EnvironmentVariablesRunFacet:
    kind = environment_variables_run.EnvironmentVariable
    return environment_variables_run.EnvironmentVariablesRunFacet(
        environmentVariables=[kind(**one) for one in facet["environmentVariables"]],
        producer=facet.get("_producer", ""),
    )


RUN_FACETS = {"parent": _parent, "tags": _run_tags, "environmentVariables": _variables}
JOB_FACETS = {"tags": _job_tags}
