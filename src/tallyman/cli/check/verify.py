"""`tallyman verify`: check a run, its inputs, the chain of seals, or a version, from the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

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
from tallyman.cli.terminal.output import NOT_SEALED, as_json, counted, out

if TYPE_CHECKING:
    from tallyman.control.seal.chain import Chain
    from tallyman.control.verify.inputs import Checked
    from tallyman.control.verify.verify import Verification
    from tallyman.domain.version.outside_entry import OutsideEntry
    from tallyman.engine.files.intact import Damage


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
    found = opened(project).checks.check_inputs(run)
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
    outside = checking.versions.differing_outside(dataset) if version is None else []
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


def print_verdict(verdict: Verification) -> None:
    word = "balanced" if verdict.balanced else "NOT BALANCED"
    counts = verdict.found
    out.print(
        f"{word}   {counts.missing:,} missing   {counts.extra:,} extra   "
        f"{counts.duplicate:,} duplicate   run {verdict.run_id}"
    )
    out.print(_sealed(verdict))
    named = f"{verdict.changes[0].file}: changed" if verdict.changes else None
    others = [reason for reason in verdict.reasons if not (named and reason.startswith(named))]
    for reason in others[:20]:
        out.print(f"  {reason}")
    for target, repeats in verdict.repeated_keys.items():
        out.print(f"  {target}: {repeats:,} records repeat a key")
    for kind, keys in counts.samples.items():
        for key in keys[:10]:
            out.print(f"  {kind}: {key}")


def _sealed(verdict: Verification) -> str:
    seal, changes = verdict.sealed.seal, verdict.changes
    if changes:
        others = f", and {len(changes) - 1:,} other files" if len(changes) > 1 else ""
        return f"CHANGED   {changes[0]}{others.removesuffix('s' if len(changes) == 2 else '')}"
    if seal is None:
        return "NOT SEALED"
    by = verdict.sealed.signed_by
    word = "sealed" if verdict.verified or not verdict.sealed.problems else "SEAL INVALID"
    who = f"signed by {by}" if by else "not signed"
    return f"{word}   no. {seal.ordinal}   {who}   {verdict.sealed.files:,} files   {seal.hash}"


def print_chain(chain: Chain) -> None:
    count = f"{counted(chain.seals, 'seal')}, {chain.signed:,} signed"
    word = "BROKEN" if chain.broken else "intact"
    out.print(f"{word}   {count}   {chain.project}")
    if chain.broken:
        broken = chain.broken
        run = f", run {broken.run}" if broken.run else ""
        out.print(f"  no. {broken.ordinal}{run}: {broken.what}")
        out.print(f"    expected  {broken.expected}")
        out.print(f"    found     {broken.found}")
    if chain.gone:
        out.print(f"  {_gone(chain.gone)}")
    if chain.head:
        out.print(f"head     no. {chain.head[0]}   {chain.head[1]}")


def _gone(runs: list[str]) -> str:
    shown = ", ".join(runs[:5]) + (", …" if len(runs) > 5 else "")
    if len(runs) == 1:
        return f"1 run folder is missing; its seal was read from the registry: {shown}"
    return (
        f"{len(runs):,} run folders are missing; their seals were read from the registry: {shown}"
    )


def print_inputs(found: Checked) -> None:
    if found.change is None:
        settings, inputs = found.checked["config"]["settings"], found.checked["inputs"]
        code = found.checked["code"]
        at = f"commit {code['git_commit'][:12]}" if code["git_commit"] else code["source_hash"][:19]
        listed = f"{counted(inputs['inputs'], 'input')} ({counted(inputs['files'], 'file')}"
        listed += f", {inputs['bytes']:,} bytes)"
        out.print(f"OK   {settings:,} settings, {at}, {listed}   run {found.run_id}")
    else:
        out.print(f"CHANGED   {found.change.kind}   run {found.run_id}")
        out.print(f"  {found.change.message}")
        if found.change.advice:
            out.print(found.change.advice)
    if not found.sealed:
        out.print(NOT_SEALED)


def print_damage(at: str, files: int, damage: Sequence[Damage]) -> None:
    word = "DAMAGED" if damage else "intact"
    out.print(f"{word}   {at}   {counted(files, 'file')}   {len(damage):,} damaged")
    for one in damage[:20]:
        out.print(f"  {one.shown}: {one.kind}: {one.detail}")
    if damage:
        out.print("other versions may be intact:  tallyman versions, tallyman rollback")


def print_outside(differing: Sequence[OutsideEntry]) -> None:
    """Print what outside readers do not find as it was published."""
    for entry in differing:
        out.print(f"OUTSIDE   {entry}")
    if differing:
        out.print("the next publication of the dataset restores it; now:  tallyman doctor --fix")
