"""`tallyman rename`, `hide`, `expose`: change a dataset's name and who can see it."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, DatasetName, ProjectFolder, opened
from tallyman.cli.terminal.output import answer, err
from tallyman.domain.version.dataset import Dataset


def rename(
    dataset: DatasetName,
    name: Annotated[str, typer.Argument(help="The new name.")],
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Rename a dataset. Versions, files and lineage stay.

    Example:  tallyman rename daily_sales sales_by_day
    """
    _show(opened(project).rename(dataset, name), json_output)


def hide(dataset: DatasetName, project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Hide a dataset from outside readers, such as PyIceberg.

    The project itself still reads it. `tallyman expose` undoes this.
    """
    _show(opened(project).hide(dataset), json_output)


def expose(
    dataset: DatasetName, project: ProjectFolder = None, json_output: AsJson = False
) -> None:
    """Show a hidden dataset to outside readers again.

    Also restores what outside readers find, if somebody else changed or removed it.
    """
    found = opened(project)
    wrong = found.versions.differing_outside(dataset)
    _show(found.expose(dataset), json_output)
    for entry in wrong:
        err.print(f"restored for outside readers: {entry}", style="yellow")


def _show(dataset: Dataset, json_output: bool) -> None:
    name, published = dataset.name, dataset.published
    seen = f"visible to outside readers as published.{name}"
    answer(
        {"dataset": name, "id": str(dataset.id), "published": published},
        f"{name} is {seen if published else 'hidden from outside readers'}",
        json_output,
    )
