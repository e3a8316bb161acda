"""Apply a change plan: build first, then publish everything in one commit, if nothing has changed
since the plan was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid5

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.publish import rename
from tallyman.control.publish.commit import PIPELINE_MOVED, publish
from tallyman.domain.codec import of_plain
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.change_plan import Action, ChangePlan
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.owner import Owner
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import PlanOutdated
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets


def load(tx: Transaction, wanted: str, owner: Owner) -> ChangePlan:
    """Find a plan by id, a prefix of it, or `latest`. Raises PlanOutdated if it was already
    applied."""
    row = Pipelines(tx).plan(wanted, owner)
    if row["commit_id"] is not None:
        raise PlanOutdated(str(row["id"]), f"it was applied by commit {str(row['commit_id'])[:8]}")
    return of_plain(ChangePlan, row["content"])


def check(tx: Transaction, plan: ChangePlan, definitions: Definitions) -> None:
    """Check that the plan still holds, before anything is built; the commit checks again."""
    if definitions.version() != plan.pipeline_to:
        raise PlanOutdated(plan.id, "the pipeline was edited since")
    owner = definitions.settings.owner
    _check_pipeline(tx, plan, owner)
    now = {str(d.id): d.ordinal for d in Datasets(tx).list(owner) if d.ordinal}
    moved = [d for d in Datasets(tx).list(owner) if now.get(str(d.id), 0) != _then(plan, d.id)]
    if moved:
        listed = ", ".join(f"{d.name} is at v{d.ordinal}" for d in moved[:5])
        raise PlanOutdated(plan.id, f"{listed} now")


def _then(plan: ChangePlan, dataset: UUID) -> int:
    return plan.expected.get(str(dataset), 0)


def _check_pipeline(tx: Transaction, plan: ChangePlan, owner: Owner) -> None:
    active = Pipelines(tx).active(owner)
    if (active[0] if active else None) != plan.pipeline_from:
        raise PlanOutdated(plan.id, PIPELINE_MOVED)


def targets(plan: ChangePlan) -> list[Target]:
    return [
        target
        for one in plan.runs
        for target in (
            [Target(one.name)]
            if one.partitions is None
            else [Target(one.name, partition) for partition in one.partitions]
        )
    ]


def publish_plan(
    tx: Transaction, warehouse: Warehouse, asked: Publication, plan: ChangePlan
) -> Commit | None:
    """Publish the plan: replace what was built, remove what left the pipeline, and rename
    datasets."""
    key = uuid5(asked.key, plan.id)
    locked = Datasets(tx).lock(UUID(dataset) for dataset in plan.expected)
    done = Commits(tx).by_key(key)
    if done is not None:
        return done
    removals = _removals(plan)
    built = [_strict(plan, change) for change in asked.changes]
    touched = {change.dataset_id for change in (*built, *removals)}
    _check_pipeline(tx, plan, asked.owner)
    whole = replace(
        asked,
        kind="apply",
        key=key,
        changes=(*built, *removals),
        reads={d: _then(plan, d) for d in locked if d not in touched},
        pipeline_version=plan.pipeline_to,
        pipeline_before=plan.pipeline_from,
        details={**asked.details, "plan": plan.id},
    )
    commit = publish(tx, warehouse, whole)
    _name(tx, plan, asked.actor)
    if commit is not None:
        Pipelines(tx).applied(UUID(plan.id), commit.id)
    return commit


def _strict(plan: ChangePlan, change: Change) -> Change:
    """Require the planned version. Built rows replace the whole dataset, unless they are
    appended."""
    whole = change.operation is not Operation.APPEND
    return replace(change, whole=whole, expected=_then(plan, change.dataset_id))


def _removals(plan: ChangePlan) -> Sequence[Change]:
    return [
        Change(
            dataset_id=UUID(one.dataset_id),
            operation=Operation.REMOVE,
            whole=True,
            expected=plan.expected[one.dataset_id],
        )
        for one in plan.planned
        if one.action is Action.REMOVE and one.dataset_id
    ]


def _name(tx: Transaction, plan: ChangePlan, actor: str) -> None:
    for one in plan.planned:
        if one.dataset_id and one.rename_to:
            rename.rename(tx, UUID(one.dataset_id), one.rename_to, actor)
        if one.dataset_id and one.publish is not None:
            rename.expose(tx, UUID(one.dataset_id), actor, published=one.publish)


def asking(plan: ChangePlan, owner: Owner, actor: str) -> Publication:
    """Build the publication of a plan that builds nothing."""
    return Publication(key=UUID(plan.id), kind="apply", actor=actor, owner=owner, changes=())
