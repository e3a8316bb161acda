"""Outputs that would overwrite what a project reads, or each other; found without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import registered_names
from tallyman.domain.definition.working_step import Output
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.errors import Problem

OURS = ("tallyman.yaml", ".tallyman", "pipelines", "runs", "warehouse")


def output_problems(pipeline: Pipeline, plans: Mapping[str, Frame], project: Path) -> list[Problem]:
    """Find outputs that would overwrite what the project reads, or each other."""
    read = {_place(s.path, project): f"source {s.name!r}" for s in pipeline.sources.values()}
    taken = read | dict.fromkeys(OURS, "Tallyman")
    found = list(_claimed_names(pipeline, plans))
    for name, plan in plans.items():
        for step in plan.steps():
            if not isinstance(step, Output):
                continue
            own = _place(step.path, project)
            for path, whose in taken.items():
                if own == path or f"{own}/".startswith(f"{path}/") or path.startswith(f"{own}/"):
                    text = f"output to {step.path!r} would write over {path!r} of {whose}"
                    found.append(Problem(f"asset {name}", text))
            taken[own] = f"asset {name!r}"
    return found


def _claimed_names(pipeline: Pipeline, plans: Mapping[str, Frame]) -> Iterator[Problem]:
    """Report output steps that register a dataset of something else."""
    seen = dict.fromkeys(pipeline.tables, "a table")
    for asset in pipeline.assets.values():
        seen |= dict.fromkeys((asset.dataset, *asset.registers), f"asset {asset.name}")
    for name, plan in plans.items():
        for dataset in registered_names(plan):
            if dataset in seen:
                text = f"register_as: the dataset {dataset!r} already belongs to {seen[dataset]}"
                yield Problem(f"asset {name}", text)
            seen.setdefault(dataset, f"asset {name}")


def _place(path: str, project: Path) -> str:
    """Return the path relative to the project, up to the first part that contains a pattern."""
    plain = re.split(r"[*?\[{]", path)[0]
    if plain != path:
        plain = plain.rpartition("/")[0]
    own = os.path.normpath(plain or ".")
    return os.path.relpath(own, project) if os.path.isabs(own) else own
