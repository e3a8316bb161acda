"""`tallyman compare`: list the differences between two runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, short, table
from tallyman.query.diff.compare import Section

WHICH = "A run id, a prefix of one, a folder name, or 'latest'."


def compare(
    run_a: Annotated[str, typer.Argument(help=WHICH)],
    run_b: Annotated[str, typer.Argument(help="The other run.")],
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Compare two runs: config, code, environment, inputs, ledgers.

    Exit 0 if they are the same; 1 if something differs or could not be compared. Timings are shown
    but do not affect the result.
    """
    found = opened(project).compare(run_a, run_b)
    if json_output:
        as_json(found.to_json())
    else:
        names = (short(found.a), short(found.b))
        out.print(f"a = {found.a}\nb = {found.b}")
        for section in found.sections:
            _show(section, names)
        out.print("the same" if found.same else "NOT the same")
    raise typer.Exit(0 if found.same else 1)


def _show(section: Section, names: tuple[str, str]) -> None:
    if not section.differences:
        out.print(f"{section.name}: same")
        return
    count = len(section.differences)
    summary = (
        "informative" if section.informative else f"{count} difference{'s' if count > 1 else ''}"
    )
    out.print(f"{section.name}: {summary}")
    titles = names if names[0] != names[1] else ("a", "b")
    rows = [
        {"what": f"  {one.path}", titles[0]: _value(one.a), titles[1]: _value(one.b)}
        for one in section.differences
    ]
    table(rows, ("what", *titles))


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
