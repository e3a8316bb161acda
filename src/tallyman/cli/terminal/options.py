"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.errors import UsageError
from tallyman.project import Project

ProjectFolder = Annotated[
    str | None,
    typer.Option("--project", "-C", help="The folder of tallyman.yaml, or any folder below it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Master = Annotated[
    str | None,
    typer.Option(help="Spark master: local[4], spark://host:7077, or sc://host for Connect."),
]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", help="A Spark setting, key=value; repeatable.")
]
Partition = Annotated[
    str | None,
    typer.Option("--partition", "-p", help="Only this partition, for example 2026-01-31."),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="How many targets to make at once, 1 to 32.")
]
RUN_HELP = "A run id, a prefix of one, a folder name, or 'latest'."
RunName = Annotated[str, typer.Argument(help=RUN_HELP)]
Selection = Annotated[
    list[str] | None,
    typer.Argument(
        help="Assets: x, +x (with upstream), x+ (with downstream), tag:t, state:modified. "
        "Default: all."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Run the named assets even if nothing changed.")
]
Meta = Annotated[
    list[str] | None,
    typer.Option(
        "--meta", help="A note about the run, name=value; repeatable. `runs --meta` finds it."
    ),
]
AcceptShrink = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-shrink",
        help="Make assets although this input has less than half of its earlier records; "
        "repeatable. Recorded with the run.",
    ),
]
DatasetName = Annotated[str, typer.Argument(help="A dataset, or the asset that makes it.")]
AtVersion = Annotated[
    int | None,
    typer.Option("--version", "-v", help="The version number. Default: the current version."),
]
Limit = Annotated[int, typer.Option(min=0, help="Show at most this many.")]
WalkLimit = Annotated[
    int, typer.Option(min=0, help="Show at most this many rows and records; 0 shows all.")
]
Message = Annotated[str | None, typer.Option("--message", "-m", help="A note for the commit.")]

_opened: list[Project] = []


def opened(
    folder: str | None,
    master: str | None = None,
    conf: list[str] | None = None,
    *,
    short: bool = False,
) -> Project:
    """Open the project; `close_all` closes it when the command ends. `short` if the command makes
    each target once: Spark may start faster, and be slower later."""
    found = Project.open(folder, master=master, spark_conf=pairs(conf or [], "--spark-conf"))
    if short:
        found.workspace.ends_soon()
    _opened.append(found)
    return found


def opened_to_make(
    folder: str | None,
    master: str | None = None,
    conf: list[str] | None = None,
    *,
    short: bool = False,
) -> Project:
    """Open the project for a command that makes a run. Refuse Spark options if a server's workers
    make it: they use their own Spark."""
    found = opened(folder, master, conf, short=short)
    if (master or conf) and found.settings.server is not None:
        raise UsageError(
            "--master and --spark-conf are for runs that the command makes itself; this one is "
            f"made by the workers of {found.settings.server}, with the Spark settings of "
            "tallyman.yaml there. To make it here: TALLYMAN_SERVER=none"
        )
    return found


def close_all() -> None:
    while _opened:
        _opened.pop().close()


def pairs(items: list[str], what: str) -> dict[str, str]:
    found = {}
    for item in items:
        name, sign, value = item.partition("=")
        if not sign or not name:
            raise UsageError(f"{what}: expected name=value, not {item!r}")
        found[name] = value
    return found
