"""`tallyman init` and `tallyman doctor`: a project that works, and a machine that can run it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from tallyman.cli.options import AsJson, ProjectFolder, opened
from tallyman.cli.output import as_json, out
from tallyman.errors import NotFound, UsageError
from tallyman.registry.status import status
from tallyman.settings import read_settings

YAML = """\
name: {name}
# pipelines: pipelines        # folder of Python and YAML files that declare sources and assets
# runs: runs                  # where run folders go
# warehouse: warehouse        # where the files of versions go
# master: local[4]            # or spark://host:7077, or sc://host for Spark Connect
# database: postgresql://user@host/name   # instead of the project's own
# thresholds: default         # default, strict, permissive, or absolute: and percentage:
# spark:
#   spark.driver.memory: 8g
"""
PIPELINE = """\
import tallyman as tm

orders = tm.source(
    "orders",
    path="data/orders.jsonl",
    format="json",
    key="order_id",
    schema="order_id string, day date not null, country string, amount decimal(10,2)",
)


@tm.asset(key="day")
def daily_sales(orders: tm.Frame) -> tm.Frame:
    return (
        orders.expect("positive_amount", "amount > 0")
        .filter("country = 'NL'", reason="abroad")
        .groupBy("day")
        .agg(total="sum(amount)", orders="count(*)")
    )
"""
PIPELINE_AS_YAML = """\
sources:
  orders:
    path: data/orders.jsonl
    format: json
    key: order_id
    schema: order_id string, day date not null, country string, amount decimal(10,2)

assets:
  daily_sales:
    from: orders
    key: day
    steps:
      - expect: {rule: positive_amount, that: amount > 0}
      - filter: {where: country = 'NL', reason: abroad}
      - groupBy: {by: day, agg: {total: sum(amount), orders: count(*)}}
"""
ORDERS = [
    f'{{"order_id":"o-{n}","day":"2026-01-{1 + n % 5:02d}",'
    f'"country":"{"BE" if n % 7 == 0 else "NL"}",'
    f'"amount":{"-1.00" if n == 13 else f"{5 + n * 1.25:.2f}"}}}\n'
    for n in range(1, 61)
]


def init(
    name: Annotated[str, typer.Argument(help="Name of the project and of its folder.")],
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Write the pipeline in YAML instead of Python.")
    ] = False,
    json_output: AsJson = False,
) -> None:
    """Write a small project that works: tallyman.yaml, pipelines/, data/.

    A pipeline is Python or YAML, or both side by side: equal pipelines mean the same.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", Path(name).name):
        raise UsageError(f"project name {name!r}: use letters, digits, '.', '_' and '-'")
    folder = Path(name)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} already exists and is not empty; nothing was written")
    path, text = ("sales.yaml", PIPELINE_AS_YAML) if as_yaml else ("sales.py", PIPELINE)
    files = {
        "tallyman.yaml": YAML.format(name=folder.name),
        f"pipelines/{path}": text,
        "data/orders.jsonl": "".join(ORDERS),
        ".gitignore": "runs/\nwarehouse/\n.tallyman/\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    if json_output:
        as_json({"project": folder.name, "files": list(files)})
        return
    out.print(f"{folder}: {', '.join(files)}\nnext:  cd {folder} && tallyman run", markup=False)


def doctor(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Check this machine and project: Python, Java, Spark, disk, settings, database."""
    checks = [_python(), _java(), _packages(), _disk(), _project(project), *_database(project)]
    if json_output:
        as_json([{"check": n, "ok": ok, "found": text} for n, ok, text in checks])
    else:
        for name, ok, text in checks:
            out.print(f"{'ok  ' if ok else 'FAIL'} {name:<9} {text}", markup=False)
    raise typer.Exit(0 if all(ok for _, ok, _ in checks) else 1)


Check = tuple[str, bool, str]


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return "python", sys.version_info >= (3, 11), found


def _java() -> Check:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return "java", False, "not found; run: sudo apt-get install -y openjdk-17-jre-headless"
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    good = bool(found) and int(found.group(1)) >= 17 if found else False
    return "java", good, text.splitlines()[0] if text else "no answer"


def _packages() -> Check:
    names = ("pyspark", "pyarrow", "duckdb")
    return "packages", True, ", ".join(f"{name} {version(name)}" for name in names)


def _disk() -> Check:
    free = shutil.disk_usage(".").free / 2**30
    return "disk", free > 1, f"{free:,.1f} GiB free"


def _project(folder: str | None) -> Check:
    try:
        settings = read_settings(folder)
    except Exception as error:
        return "project", folder is None, f"{error}"
    return "project", True, f"{settings.name} in {settings.home}"


def _database(folder: str | None) -> list[Check]:
    try:
        found = status(opened(folder).database)
    except NotFound:
        return []
    good = found.state != "unreachable"
    text = f"{found.place}, {found.state.replace('_', ' ')}"
    return [("database", good, text if good else f"{text}: {found.problem}")]


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(doctor)
