"""OpenLineage events of a run, its targets and their steps. Built here, sent elsewhere.

Ids are derived from the run's id: the same facts make the same event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from tallyman.control.openlineage import run_facets
from tallyman.control.openlineage.datasets import (
    LineageDataset,
    column_lineage_facet,
    input_dataset,
    merged,
    output_dataset,
)
from tallyman.control.openlineage.facets import (
    EVENT,
    PRODUCER,
    Facet,
    RunState,
    facet,
    notes_facet,
)
from tallyman.control.openlineage.plan_text import plan_text, step_texts
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.column_lineage import ColumnLineage
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.manifest import Manifest
from tallyman.domain.history.run import AssetResult, Status
from tallyman.engine.code.shown_code import Code
from tallyman.engine.columns.lineage import column_lineage, registered_lineage

NAMESPACE = "tallyman"
STATES = {
    Status.RUNNING: RunState.RUNNING,
    Status.SUCCESS: RunState.COMPLETE,
    Status.SKIPPED: RunState.COMPLETE,
    Status.WAITING: RunState.COMPLETE,
    Status.FAILED: RunState.FAIL,
    Status.HALTED: RunState.FAIL,
    Status.CANCELED: RunState.ABORT,
    Status.INTERRUPTED: RunState.ABORT,
}
"""The OpenLineage state of each status. START is emitted separately, when a run or target
begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRun:
    """A run as lineage knows it: its manifest.json, and the namespace from the environment or our
    own."""

    manifest: Manifest
    namespace: str = NAMESPACE

    @property
    def id(self) -> UUID:
        return self.manifest.id

    @property
    def project(self) -> str:
        return str(self.manifest.project)

    def dataset(self, called: str, name: str, **known: Any) -> LineageDataset:
        """Describe a dataset of the project."""
        full = f"{self.project}.{name}"
        return LineageDataset(called=called, namespace=self.namespace, name=full, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageAsset:
    """One target in one attempt. Facts that are not known yet are empty."""

    result: AssetResult
    folder: str
    """The target's folder, relative to the project: `runs/…/daily_revenue`."""
    inputs: Sequence[LineageDataset] = ()
    output: LineageDataset | None = None
    registered: Mapping[str, LineageDataset] = field(default_factory=dict)
    """Datasets that its output steps register, by name."""
    plan: Frame | None = None
    code: Code | None = None
    meta: Mapping[str, str] = field(default_factory=dict)
    """The notes of the asset."""
    ledger: StoredLedger | None = None
    rejections: Sequence[Mapping[str, Any]] = ()
    """The content of errors/_summary.json; its samples are left out of events."""
    reads: Sequence[str] = ()
    """Its inputs, by their names in the manifest."""

    def id(self, run: LineageRun) -> UUID:
        made = self.result
        return uuid5(run.id, f"{made.name}|{made.partition or ''}|{made.attempt}")

    @property
    def title(self) -> str:
        made = self.result
        return f"{made.name}[{made.partition}]" if made.partition else made.name

    @property
    def made(self) -> list[LineageDataset]:
        own = [] if self.output is None else [self.output]
        return [*own, *self.registered.values()]

    def counted_inputs(self) -> list[LineageDataset]:
        """List the inputs, with the number of records if the ledger counts only that input."""
        accounted = accounted_inputs(self.plan) if self.plan else []
        total = self.ledger.records_in if self.ledger else None
        return [one.with_rows(total if accounted == [one.called] else None) for one in self.inputs]


# ---- events -------------------------------------------------------------------------------------


def run_event(
    run: LineageRun,
    state: RunState,
    at: datetime,
    assets: Sequence[LineageAsset] = (),
    error: Mapping[str, object] | None = None,
) -> LineageEvent:
    """Build an event of the run. START and RUNNING (on resume) say little about assets; the end
    says all."""
    ledgers = [asset.ledger for asset in assets if asset.ledger]
    facets = run_facets.of_run(run.manifest) | run_facets.run_ledger(run.manifest, ledgers)
    if state in (RunState.FAIL, RunState.ABORT):
        facets |= run_facets.failure(_error(assets, error), run.project)
    made = {one.identity for asset in assets for one in asset.made}
    read = merged(one for asset in assets for one in asset.counted_inputs())
    inputs = [input_dataset(one) for one in read if one.identity not in made]
    job = _job(run, run.project, "RUN", *_texts(assets))
    return _event(state, at, _run(run.id, facets), job, inputs, _outputs(assets, state))


def asset_event(
    run: LineageRun, asset: LineageAsset, state: RunState, at: datetime
) -> LineageEvent:
    parent = _parent(run, run.id, run.project)
    facets = parent | run_facets.of_asset(run.manifest, asset.result, asset.reads)
    facets |= run_facets.asset_ledger(asset.ledger, asset.folder, asset.result)
    if state in (RunState.FAIL, RunState.ABORT):
        facets |= run_facets.failure(asset.result.error, asset.title)
    inputs = [input_dataset(one) for one in asset.counted_inputs()]
    job = _job(run, f"{run.project}.{asset.result.name}", "ASSET", *_texts([asset]), asset.meta)
    return _event(state, at, _run(asset.id(run), facets), job, inputs, _outputs([asset], state))


def step_events(
    run: LineageRun, asset: LineageAsset, clock: Callable[[], datetime]
) -> list[LineageEvent]:
    """Build one COMPLETE event per step of the plan with the fates it gave, even if it gave
    none."""
    if asset.plan is None:
        return []
    own, name = asset.id(run), f"{run.project}.{asset.result.name}"
    parent = _parent(run, own, name)
    queries = step_texts(asset.plan)
    known = run_facets.step_ledgers(asset.plan, asset.ledger, asset.rejections, asset.result.name)
    return [
        _event(
            RunState.COMPLETE,
            clock(),
            _run(uuid5(own, step), {**parent, "tallyman_ledger": ledger}),
            _job(run, f"{name}.{step}", "STEP", None, queries[step]),
        )
        for step, ledger in known.items()
    ]


def _event(
    state: RunState,
    at: datetime,
    run: Mapping[str, Any],
    job: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]] = (),
    outputs: Sequence[Mapping[str, Any]] = (),
) -> LineageEvent:
    return LineageEvent(
        {
            "eventTime": run_facets.instant(at),
            "producer": PRODUCER,
            "schemaURL": EVENT,
            "run": run,
            "job": job,
            "eventType": state.value,
            "inputs": list(inputs),
            "outputs": list(outputs),
        }
    )


def _run(id: UUID, facets: Mapping[str, Facet]) -> dict[str, Any]:
    return {"runId": str(id), "facets": dict(facets)}


# ---- jobs and parents ---------------------------------------------------------------------------


def _job(
    run: LineageRun,
    name: str,
    kind: str,
    code: Code | None,
    query: str | None,
    meta: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    facets = {
        "jobType": facet(
            "JobTypeJobFacet",
            processingType="BATCH",
            integration="TALLYMAN",
            jobType=kind,
        )
    }
    if code is not None:
        texts = {"language": code.language, "sourceCode": code.text}
        facets["sourceCode"] = facet("SourceCodeJobFacet", **texts)
    if query is not None:
        facets["sql"] = facet("SQLJobFacet", query=query)
    if meta:
        facets["tags"] = notes_facet(meta)
    return _named(run, name, facets)


def _parent(run: LineageRun, id: UUID, name: str) -> dict[str, Facet]:
    root = {"run": _run(run.id, {}), "job": _named(run, run.project, {})}
    parent = facet("ParentRunFacet", run=_run(id, {}), job=_named(run, name, {}), root=root)
    return {"parent": parent}


def _named(run: LineageRun, name: str, facets: Mapping[str, Facet]) -> dict[str, Any]:
    return {"namespace": run.namespace, "name": name, "facets": dict(facets)}


def _texts(assets: Sequence[LineageAsset]) -> tuple[Code | None, str | None]:
    """Return code and queries of the assets, each asset once regardless of its number of
    partitions."""
    by_name = {asset.result.name: asset for asset in assets}
    codes = list(dict.fromkeys(a.code for a in by_name.values() if a.code is not None))
    queries = [
        f"-- {name}\n{plan_text(a.plan)}" for name, a in by_name.items() if a.plan is not None
    ]
    languages = {code.language for code in codes}
    code = None
    if codes:
        language = languages.pop() if len(languages) == 1 else "MIXED"
        code = Code(language, "\n\n".join(code.text for code in codes))
    return code, ";\n\n".join(queries) or None


def _error(
    assets: Sequence[LineageAsset], error: Mapping[str, object] | None
) -> Mapping[str, object] | None:
    """Return the run's own error, or that of the first asset that failed by itself."""
    found = [asset.result for asset in assets if asset.result.error is not None]
    found.sort(key=lambda made: made.status is Status.PENDING)
    return error or (found[0].error if found else None)


# ---- outputs ------------------------------------------------------------------------------------


def _outputs(assets: Sequence[LineageAsset], state: RunState) -> list[dict[str, Any]]:
    makers: dict[tuple[str, str], list[LineageAsset]] = {}
    for asset in assets:
        for one in asset.made:
            makers.setdefault(one.identity, []).append(asset)
    datasets = merged(one for asset in assets for one in asset.made)
    return [
        output_dataset(one, _output_facets(one, makers[one.identity], state)) for one in datasets
    ]


def _output_facets(
    one: LineageDataset, makers: Sequence[LineageAsset], state: RunState
) -> dict[str, Facet]:
    first = makers[0]
    found: dict[str, Facet] = {}
    if first.plan is not None and all(each.schema for each in first.inputs):
        inputs = {each.called: each.schema.names for each in first.inputs if each.schema}
        names = {each.identity: name for name, each in first.registered.items()}
        lineage: ColumnLineage | None  # rejections have none: their columns are those of rules
        if one.identity in names:
            lineage = registered_lineage(first.plan, inputs).get(names[one.identity])
        else:
            lineage = column_lineage(first.plan, inputs, one.schema.names if one.schema else None)
        if lineage is not None:
            found["columnLineage"] = column_lineage_facet(lineage, first.inputs)
    if state is not RunState.START and any(maker.ledger for maker in makers):
        found["tallyman_errors"] = run_facets.errors(
            [maker.result for maker in makers],
            [row for maker in makers for row in maker.rejections],
            [maker.folder for maker in makers],
        )
    return found
