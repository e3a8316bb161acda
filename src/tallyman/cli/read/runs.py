"""`tallyman runs`: list runs, and remove old ones."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened, pairs
from tallyman.cli.terminal.output import as_json, counted, listed, out, short, table
from tallyman.errors import UsageError
from tallyman.project import Project
from tallyman.settings import age_s

runs = typer.Typer(
    help="List runs, newest first, and remove old ones.", invoke_without_command=True
)
Limit = Annotated[int, typer.Option(help="List at most this many, newest first.")]
OnlyMeta = Annotated[
    list[str] | None, typer.Option("--meta", help="Only runs with this note, name=value.")
]
Failed = Annotated[
    bool,
    typer.Option(
        "--failed",
        help="List what failed or was never made in any run, and was not made since. "
        "`tallyman resume RUN` continues such a run.",
    ),
]


@runs.callback()
@runs.command("ls", help="List runs, newest first.")
def runs_ls(
    context: typer.Context,
    project: ProjectFolder = None,
    limit: Limit = 20,
    failed: Failed = False,
    meta: OnlyMeta = None,
    json_output: AsJson = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    found = opened(project)
    if failed:
        _show_unfinished(found, json_output)
        return
    rows = [
        {
            "run_id": run.name,
            "run": short(run.name),
            "started_at": f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "status": run.status.value,
            "removed": run.removed_at is not None,
            "actor": run.actor,
            "folder": run.folder if run.removed_at is None else "(removed)",
            "assets": ", ".join(run.params.assets),
            "meta": dict(run.params.meta),
        }
        for run in found.runs(limit=limit, meta=pairs(meta or [], "--meta"))
    ]
    names = ("run", "started_at", "status", "actor", "folder", "assets")
    listed(rows, names, "no runs yet; start one:  tallyman run", json_output)


def _show_unfinished(found: Project, json_output: bool) -> None:
    unfinished = found.runs.unfinished()
    names = {row.run_id: found.runs.by_id(row.run_id).name for row in unfinished}
    rows = [
        {
            "asset": row.target.asset,
            "partition": row.target.partition,
            "status": row.status.value,
            "run_id": names[row.run_id],
            "run": short(names[row.run_id]),
            "attempt": row.attempt,
            "error": (row.error_message or "").split("\n")[0],
        }
        for row in unfinished
    ]
    columns = ("asset", "partition", "status", "run", "attempt", "error")
    listed(rows, columns, "nothing failed, and nothing waits to be made", json_output)


@runs.command("rm")
def runs_rm(
    run: Annotated[
        list[str] | None, typer.Argument(help="Runs by name or the beginning of a name.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="All runs older than this that nothing needs: 12h, 7d, 2w. "
            "Default: `keep_runs` of tallyman.yaml."
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove them; without this, only list them.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Remove the folders of runs: evidence, trace, rejections, reports.

    A run stays if a version has rows that it made, if it made the newest result of an asset (with
    its open rejections), or if a result that stays was made from it. The registry keeps each run,
    its lineage and its seal, so that the chain of seals stays whole.
    """
    found = opened(project)
    if run and older_than:
        raise UsageError("name runs, or give --older-than, not both")
    if run:
        old = found.runs.remove(run, confirm=confirm)
    else:
        given = age_s(older_than, "--older-than") if older_than else found.settings.keep_runs_s
        if given is None:
            raise UsageError("name runs, or give --older-than, or set keep_runs in tallyman.yaml")
        old = found.runs.remove_old(older_than_s=given, confirm=confirm)
    if json_output:
        as_json({"confirmed": confirm, "runs": [one.to_json() for one in old]})
        return
    going = [one for one in old if one.kept is None]
    rows = [one.to_json() | {"run": short(one.run.name)} for one in old]
    if rows:
        table(rows, ("run", "started_at", "status", "bytes", "kept"))
    size = sum(one.bytes for one in going)
    did = "removed" if confirm else "would remove"
    out.print(f"{did} {counted(len(going), 'run')}, {size:,} bytes")
    if going and not confirm:
        out.print("nothing was removed; add --confirm to remove them")
