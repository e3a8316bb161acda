"""`tallyman pipeline-versions`: list the versions of the pipeline, or show one."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, Limit, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, counted, out, table
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.errors import NotFound
from tallyman.errors.wording import nearest
from tallyman.project import Project


def pipeline_versions(
    version: Annotated[
        str | None,
        typer.Argument(
            help="Show this version: its hash, a prefix of it, or 'active'. Default: list all.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", help="Print the stored text of this file of the version."),
    ] = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List the versions of the pipeline, newest first, or show one.

    A version is kept with its plan and the text of its files when it is first run or applied, so
    that it can be run without them. `tallyman compile --version` prints its plan.

    Example:  tallyman pipeline-versions 4f2a --file sales.py
    """
    found = opened(project)
    if version is None:
        _list(found, limit, json_output)
    elif file is None:
        _show(found.pipelines.version(version), json_output)
    else:
        _print_file(found.pipelines.version(version), file)


def _list(found: Project, limit: int, json_output: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "version": row["hash"],
            "state": "active" if row["active"] else "",
            "first_seen": f"{row['created_at']:%Y-%m-%dT%H:%M:%SZ}",
            "runs": row["runs"],
            "assets": len(row["definition"].get("assets", ())),
        }
        for row in found.pipelines(limit=limit)
    ]
    standing = found.pipelines.standing()
    if json_output:
        as_json({"versions": rows, "pipeline": standing.to_json()})
        return
    for row in rows:
        row["version"] = row["version"][:8]
    table(rows, ("version", "state", "first_seen", "runs", "assets"))
    out.print(standing.runs_from)


def _show(found: PipelineVersion, json_output: bool) -> None:
    assets, size = found.definition.get("assets", {}), len(found.plan.encode())
    facts = {
        "version": found.hash,
        "first_seen": f"{found.created_at:%Y-%m-%dT%H:%M:%SZ}",
        "plan_bytes": size,
        "assets": assets,
        "tables": found.definition.get("tables", []),
        "files": dict(found.files),
    }
    if json_output:
        as_json(facts)
        return
    out.print(f"pipeline version {found.hash}   first seen {facts['first_seen']}")
    for name, asset in assets.items():
        out.print(f"asset {name}   reads {', '.join(asset['inputs'])}")
    for name in facts["tables"]:
        out.print(f"table {name}")
    out.print(f"plan of {counted(size, 'byte')}, stored")
    for name, text in found.files.items():
        kept = "not kept: larger than 1 MB, or no text" if text is None else _lines(text)
        out.print(f"file {name}   {kept}")


def _lines(text: str) -> str:
    return counted(len(text.splitlines()), "line")


def _print_file(found: PipelineVersion, name: str) -> None:
    text = found.files.get(name)
    if text is None:
        near = nearest(name, found.files)
        raise NotFound(f"stored text in version {found.hash[:8]} of", name, near)
    sys.stdout.write(text)
