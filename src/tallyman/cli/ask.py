"""`verify`: a run, the chain of all seals, or a version, checked again from its files."""

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
from tallyman.cli.reproduce import check_inputs
from tallyman.cli.seals import show_chain, show_verdict
from tallyman.errors import UsageError
from tallyman.project import Project


def verify(
    run: RunName = "latest",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Compare key by key with the inputs, even if all looks well."),
    ] = False,
    inputs: Annotated[
        bool,
        typer.Option("--inputs", help="Are config, code and inputs still what the run used?"),
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="All seals of the project instead of a run, from the first."),
    ] = False,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", help="With --chain: a seal's hash noted before; is it still in the chain?"
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="A dataset's files instead of a run.")
    ] = None,
    version: AtVersion = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Check a run again from its files: is every record still accounted for, and every byte
    what was sealed? The first file that changed is named.

    With --inputs: are config, code and inputs what the run was bound to? Without Spark.
    With --chain: does every seal name the one before it, and bear its signature?
    With --dataset: is every file of a version byte for byte what was published?
    """
    if head is not None and not chain:
        raise UsageError("--head goes with --chain")
    if chain and (exact or inputs or dataset is not None or run != "latest"):
        raise UsageError("--chain checks all seals: it goes with no run and no other check")
    opening = opened(project, master, spark_conf)
    if dataset is not None:
        _verify_dataset(opening, dataset, version, json_output)
    if inputs:
        check_inputs(opening, run, json_output)
    if chain:
        show_chain(opening.chain(head), json_output)
    show_verdict(opening.verify(run, exact=exact), json_output)


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
