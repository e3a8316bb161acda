"""`tallyman apply`: carry out a change plan."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import (
    AcceptShrink,
    AsJson,
    Jobs,
    Master,
    ProjectFolder,
    SparkConf,
    opened_to_make,
)
from tallyman.cli.terminal.output import as_json, out, published
from tallyman.cli.terminal.progress import supervised
from tallyman.cli.terminal.result import commit_facts, show_result
from tallyman.domain.version.change_plan import Planned


def apply(
    plan: Annotated[str, typer.Argument(help="A plan's id, a prefix of it, or 'latest'.")] = (
        "latest"
    ),
    jobs: Jobs = 1,
    accept_shrink: AcceptShrink = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Carry out a plan, and publish all of it in one commit.

    Readers see the old versions until the commit, and all the new ones after it. Refused (exit 4)
    if the pipeline or a dataset has changed since the plan was made.
    """
    found = opened_to_make(project, master, spark_conf)
    made, result, commit = supervised(
        found,
        json_output,
        lambda progress: found.apply(
            plan, jobs=jobs, accept_shrink=accept_shrink or [], listen=progress
        ),
    )
    if result is not None:
        show_result(result, json_output)
    elif json_output:
        as_json({"plan": made.id, **commit_facts(commit)})
    elif commit is None and made.empty:
        out.print("nothing to change")
    else:
        named = [one for one in made.planned if one.rename_to or one.publish is not None]
        for one in named:
            out.print(f"{one.dataset}: {_naming(one)}")
        if commit:
            out.print(published(commit))


def _naming(one: Planned) -> str:
    said = [f"is now called {one.rename_to}"] if one.rename_to else []
    if one.publish is not None:
        said.append(
            "is visible to outside readers" if one.publish else "is hidden from outside readers"
        )
    return ", ".join(said)
