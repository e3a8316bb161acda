"""Questions to a project and its runs: ls, runs, show, verify, sources, rejections."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.options import AsJson, Master, ProjectFolder, RunName, SparkConf, opened, pairs
from tallyman.cli.output import as_json, err, out, table, tally
from tallyman.control.records import original_records
from tallyman.control.sources import source_keys
from tallyman.control.verify import verify as verify_run
from tallyman.domain.fate import Fate
from tallyman.domain.run import AssetResult, Status
from tallyman.engine.runs import Run, get_run, list_runs
from tallyman.query import rejections as dead_letters

rejections = typer.Typer(
    help="Dead letters: records that could not be used, and why.", no_args_is_help=True
)
OnlyAsset = Annotated[str | None, typer.Option("--asset", help="Only this asset.")]


def ls(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """List sources and assets, in the order they run."""
    pipeline = opened(project).pipeline
    rows = [
        {"name": s.name, "kind": "source", "key": ", ".join(s.key), "inputs": s.path}
        for s in pipeline.sources.values()
    ]
    for name in pipeline.order():
        asset = pipeline.assets[name]
        inputs = ", ".join(asset.inputs)
        rows.append({"name": name, "kind": "asset", "key": ", ".join(asset.key), "inputs": inputs})
    as_json(rows) if json_output else table(rows, ("name", "kind", "key", "inputs"))


def runs(
    project: ProjectFolder = None,
    limit: Annotated[int, typer.Option(help="How many, newest first.")] = 20,
    json_output: AsJson = False,
) -> None:
    """List runs, newest first; an unfinished one was interrupted or is still at work."""
    rows = [
        {
            "run_id": run.run_id,
            "started_at": run.manifest["timestamp"],
            "status": run.status,
            "folder": run.folder.name,
            "assets": ", ".join(run.manifest["assets"]),
        }
        for run in list_runs(opened(project).settings.runs_folder)[:limit]
    ]
    if json_output:
        as_json(rows)
    elif rows:
        table(rows, ("run_id", "started_at", "status", "folder", "assets"))
    else:
        out.print("no runs yet; next:  tallyman run")


def show(
    run: RunName = "latest", project: ProjectFolder = None, json_output: AsJson = False
) -> None:
    """What a run did: the tally of each asset, rejections by rule, timings."""
    found = _run(project, run)
    if json_output:
        as_json(
            {
                **(found.report or {"run_id": found.run_id}),
                "status": found.status,
                "folder": found.folder.name,
            }
        )
        return
    out.print(f"run {found.run_id}   {found.status}   {found.manifest['timestamp']}", markup=False)
    for asset in (found.report or {}).get("assets", []):
        out.print(tally(_result(asset)), markup=False)
        if asset.get("error"):
            err.print(f"  {asset['error']['message']}", style="red", markup=False)
        for kind, count in asset.get("rejections_by_type", {}).items():
            out.print(f"    {count:>10,}  {kind}", markup=False)
    if found.report is None:
        out.print("it did not finish: interrupted, or still at work. Nothing of it was published.")


def _result(asset: dict) -> AssetResult:  # type: ignore[type-arg]
    fates = {Fate(name): count for name, count in asset["fates"].items()}
    return AssetResult(
        name=asset["name"],
        status=Status(asset["status"]),
        records_in=asset["records_in"],
        fates=fates,
        unaccounted=asset["unaccounted"],
        rows_out=asset["rows_out"],
        duration_ms=asset["duration_ms"],
        error=asset.get("error"),
    )


def _run(project: str | None, name: str) -> Run:
    return get_run(opened(project).settings.runs_folder, name)


def verify(
    run: RunName = "latest",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Compare key by key with the inputs, even if all looks well."),
    ] = False,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """Check a run again from its files: is every record still accounted for?"""
    opening = opened(project, master, spark_conf)
    found = get_run(opening.settings.runs_folder, run)
    verdict = verify_run(found, opening.settings, opening.pipeline, lambda: opening.spark, exact)
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


def sources(
    run: RunName,
    asset: Annotated[str, typer.Argument(help="The asset whose row is asked about.")],
    where: Annotated[list[str], typer.Argument(help="The row, as column=value.")],
    records: Annotated[
        bool, typer.Option("--records", help="The original records, not only keys.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="List at most this many.")] = None,
    project: ProjectFolder = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    json_output: AsJson = False,
) -> None:
    """List the source records behind a row of an output, from the evidence."""
    opening = opened(project, master, spark_conf)
    found = get_run(opening.settings.runs_folder, run)
    keys = source_keys(
        found, asset, pairs(where, "row"), opening.settings, opening.pipeline, lambda: opening.spark
    )
    answer: dict[str, object] = {"run_id": found.run_id, "asset": asset, "count": len(keys)}
    listed: list[object] = list(keys[:limit])
    if records:
        listed = list(
            original_records(
                opening.spark, opening.settings, opening.pipeline, found, asset, keys[:limit]
            )
        )
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
    rows = dead_letters.summary(_run(project, run), asset)
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
    found = _run(project, run)
    count, rows = dead_letters.letters(found, asset=asset, key=key, kind=error_type, limit=limit)
    if json_output:
        as_json({"count": count, "rejections": rows})
        return
    table(rows, ("source_key", "error_type", "morphism_path", "expected", "actual", "error_code"))
    out.print(f"{len(rows):,} of {count:,}", markup=False)


def register(app: typer.Typer) -> None:
    for command in (ls, runs, show, verify, sources):
        app.command()(command)
    app.add_typer(rejections, name="rejections")
