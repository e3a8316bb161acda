"""`verify`: a run, or a version, checked again from its files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, NoReturn

import typer

from tallyman.cli.data import AtVersion
from tallyman.cli.options import (
    AsJson,
    Master,
    ProjectFolder,
    RunName,
    SparkConf,
    opened,
)
from tallyman.cli.output import as_json, out
from tallyman.control.verify import verify as verify_run
from tallyman.project import Project


def verify(
    run: RunName = "latest",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Compare key by key with the inputs, even if all looks well."),
    ] = False,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="A dataset's files instead of a run.")
    ] = None,
    version: AtVersion = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Check a run again from its files: is every record still accounted for?

    With --dataset: is every file of a version byte for byte what was published?
    """
    opening = opened(project, master, spark_conf)
    if dataset is not None:
        _verify_dataset(opening, dataset, version, json_output)
    found = opening.folder(run)
    verdict = verify_run(found, opening.again(found), exact)
    if json_output:
        as_json(verdict.to_json())
    else:
        word = "balanced" if verdict.balanced else "NOT BALANCED"
        counts = verdict.found
        out.print(
            f"{word}   {counts.missing:,} missing   {counts.extra:,} extra   "
            f"{counts.duplicate:,} duplicate   run {verdict.run_id}",
            markup=False,
        )
        for reason in verdict.reasons[:20]:
            out.print(f"  {reason}", markup=False)
        for kind, keys in counts.samples.items():
            for key in keys[:10]:
                out.print(f"  {kind}: {key}", markup=False)
    raise typer.Exit(0 if verdict.balanced else 1)


def _verify_dataset(
    opening: Project, name: str, version: int | None, json_output: bool
) -> NoReturn:
    found, damage = opening.damaged(name, version)
    files = sum(len(fragment.files) for fragment in found.fragments)
    if json_output:
        as_json(
            {
                "dataset": found.dataset.name,
                "version": found.version.ordinal,
                "files": files,
                "intact": not damage,
                "damaged": [asdict(one) for one in damage],
            }
        )
    else:
        word = "intact" if not damage else "DAMAGED"
        at = f"{found.dataset.name} v{found.version.ordinal}"
        count = f"{files:,} file{'s' if files != 1 else ''}"
        out.print(f"{word}   {at}   {count}   {len(damage):,} damaged", markup=False)
        for one in damage[:20]:
            out.print(f"  {one.shown}: {one.kind}: {one.detail}", markup=False)
        if damage:
            out.print(
                "other versions may be whole:  tallyman versions, tallyman rollback", markup=False
            )
    raise typer.Exit(1 if damage else 0)


def register(app: typer.Typer) -> None:
    app.command()(verify)
