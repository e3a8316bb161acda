"""Options that several commands share, spelled once."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.errors import UsageError
from tallyman.project import Project

ProjectFolder = Annotated[
    str | None,
    typer.Option("--project", "-C", help="Folder of tallyman.yaml, or any folder below it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Master = Annotated[
    str | None,
    typer.Option(help="Spark master: local[4], spark://host:7077, or sc://host for Connect."),
]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", help="Spark setting as key=value; repeatable.")
]
RunName = Annotated[
    str, typer.Argument(help="A run id, a prefix of one, a folder name, or 'latest'.")
]


def opened(folder: str | None, master: str | None = None, conf: list[str] | None = None) -> Project:
    return Project.open(folder, master=master, spark_conf=pairs(conf or [], "--spark-conf"))


def pairs(items: list[str], what: str) -> dict[str, str]:
    found = {}
    for item in items:
        name, sign, value = item.partition("=")
        if not sign or not name:
            raise UsageError(f"{what}: expected name=value, not {item!r}")
        found[name] = value
    return found
