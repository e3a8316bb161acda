"""Questions to a run's files: verify, sources, rejections."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, NoReturn

import typer

from tallyman.cli.data import AtVersion
from tallyman.cli.options import (
    AsJson,
    Master,
    Partition,
    ProjectFolder,
    RunName,
    SparkConf,
    opened,
    pairs,
)
from tallyman.cli.output import as_json, err, out, table
from tallyman.control.records import original_records
from tallyman.control.sources import source_keys
from tallyman.control.verify import verify as verify_run
from tallyman.project import Project
from tallyman.query import rejections as dead_letters

rejections = typer.Typer(
    help="Dead letters: records that could not be used, and why.", no_args_is_help=True
)
OnlyAsset = Annotated[str | None, typer.Option("--asset", help="Only this asset.")]


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


def sources(
    run: RunName,
    asset: Annotated[str, typer.Argument(help="The asset whose row is asked about.")],
    where: Annotated[list[str], typer.Argument(help="The row, as column=value.")],
    records: Annotated[
        bool, typer.Option("--records", help="The original records, not only keys.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="List at most this many.")] = None,
    partition: Partition = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """List the source records behind a row of an output, from the evidence."""
    opening = opened(project, master, spark_conf)
    found = opening.folder(run)
    wanted = opening.target(asset, partition).partition
    again = opening.again(found)(*found.place(asset, wanted))
    keys = source_keys(again, pairs(where, "row"))
    answer: dict[str, object] = {"run_id": found.run_id, "asset": asset, "count": len(keys)}
    listed: list[object] = [*keys[:limit]]
    if records:
        listed = [*original_records(again, keys[:limit])]
    if json_output:
        as_json(answer | {"records" if records else "keys": listed})
        return
    for item in listed:
        as_json(item) if isinstance(item, dict) else print(item)
    err.print(f"{len(keys):,} source records", markup=False)


@rejections.command("ls")
def rejections_ls(
    run: RunName = "latest",
    asset: OnlyAsset = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Count rejections by asset, kind and rule."""
    rows = dead_letters.summary(opened(project).folder(run), asset)
    if json_output:
        as_json(rows)
        return
    names = (
        "asset",
        "error_type",
        "morphism_path",
        "count",
        "sample_error_code",
        "sample_actual_value",
    )
    table(rows, names) if rows else out.print("no rejections")
    if rows:
        out.print("each of them:  tallyman rejections show latest", markup=False)


@rejections.command("show")
def rejections_show(
    run: RunName = "latest",
    key: Annotated[str | None, typer.Option(help="Only this source key.")] = None,
    error_type: Annotated[str | None, typer.Option("--type", help="Only this error type.")] = None,
    asset: OnlyAsset = None,
    limit: Annotated[int, typer.Option(help="List at most this many.")] = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Show dead-letter records."""
    found = opened(project).folder(run)
    count, rows = dead_letters.letters(found, asset=asset, key=key, kind=error_type, limit=limit)
    if json_output:
        as_json({"count": count, "rejections": rows})
        return
    table(rows, ("source_key", "error_type", "morphism_path", "expected", "actual", "error_code"))
    out.print(f"{len(rows):,} of {count:,}", markup=False)


def register(app: typer.Typer) -> None:
    for command in (verify, sources):
        app.command()(command)
    app.add_typer(rejections, name="rejections")
