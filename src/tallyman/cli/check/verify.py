"""`tallyman verify`: check a run, its inputs, the chain of seals, or a version, from the files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tallyman.cli.check.verify_text import (
    print_chain,
    print_damage,
    print_inputs,
    print_outside,
    print_verdict,
)
from tallyman.cli.terminal.options import (
    AsJson,
    AtVersion,
    DatasetName,
    Master,
    ProjectFolder,
    RunName,
    SparkConf,
    opened,
)
from tallyman.cli.terminal.output import as_json
from tallyman.domain.version.outside_entry import OutsideEntry


class RunByDefault(TyperGroup):
    """A command group in which `verify RUN` means `verify run RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else ["run", *args])


verify = typer.Typer(
    cls=RunByDefault,
    help="Check a run, its inputs, all seals, or a version.\n\n"
    "`verify RUN` means `verify run RUN`.",
)


@verify.command()
def run(
    run: RunName = "latest",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Compare every key with the inputs, even if nothing changed."),
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Check a run: every record accounted for, every byte as sealed.

    Names the first file that changed. Spark starts only if a file changed, or with --exact.

    Example:  tallyman verify run latest --exact
    """
    verdict = opened(project, master, spark_conf).verify(run, exact=exact)
    as_json(verdict.to_json()) if json_output else print_verdict(verdict)
    raise typer.Exit(0 if verdict.verified else 1)


@verify.command()
def inputs(
    run: RunName = "latest", project: ProjectFolder = None, json_output: AsJson = False
) -> None:
    """Check that config, code and inputs are still what a run used.

    Names the first difference. Does not start Spark.

    Example:  tallyman verify inputs latest
    """
    found = opened(project).check_inputs(run)
    as_json(found.to_json()) if json_output else print_inputs(found)
    raise typer.Exit(0 if found.change is None else 1)


@verify.command()
def chain(
    head: Annotated[
        str | None,
        typer.Option("--head", help="Check that this seal hash, noted earlier, is in the chain."),
    ] = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Check all seals of the project, from the first to the last.

    Each seal must name the one before it, and every signature must be valid.

    Example:  tallyman verify chain --head 5fa504208c25…
    """
    found = opened(project).chain(head)
    as_json(found.to_json()) if json_output else print_chain(found)
    raise typer.Exit(1 if found.broken else 0)


@verify.command()
def dataset(
    dataset: DatasetName,
    version: AtVersion = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Check every file of a version, byte for byte.

    Without --version, also that outside readers find the current version and the snapshots.

    Example:  tallyman verify dataset daily_revenue --version 6
    """
    checking = opened(project)
    found, damage = checking.damaged(dataset, version)
    outside = checking.differing_outside(dataset) if version is None else list[OutsideEntry]()
    files = sum(len(fragment.files) for fragment in found.fragments)
    facts = {
        "dataset": found.dataset.name,
        "version": found.version.ordinal,
        "files": files,
        "intact": not damage,
        "damaged": [asdict(one) for one in damage],
        "outside": [entry.to_json() for entry in outside],
    }
    at = f"{found.dataset.name} v{found.version.ordinal}"
    if json_output:
        as_json(facts)
    else:
        print_damage(at, files, damage)
        print_outside(outside)
    raise typer.Exit(1 if damage or outside else 0)
