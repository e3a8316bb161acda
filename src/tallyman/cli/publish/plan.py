"""`tallyman plan`: show what applying the edited pipeline would change."""

from __future__ import annotations

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out
from tallyman.domain.version.change_plan import ChangePlan


def plan(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Show what the edited pipeline would change; change nothing.

    The plan is stored. `tallyman apply` carries it out if nothing has changed since.
    """
    found = opened(project).plan()
    if json_output:
        as_json(found.to_json())
        return
    _show_plan(found)
    if found.empty and found.pipeline_from == found.pipeline_to:
        out.print("nothing to apply")
    else:
        out.print(f"to carry it out:  tallyman apply {found.id[:8]}")


def _show_plan(plan: ChangePlan) -> None:
    for one in plan.planned:
        out.print(str(one))
    if plan.estimate:
        new = [one for one in plan.builds if one.estimate is None]
        unknown = f"; nothing is known about {len(new)} new" if new else ""
        out.print(f"all builds: {plan.estimate}, as before{unknown}")
