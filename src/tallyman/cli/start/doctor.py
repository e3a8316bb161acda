"""`tallyman doctor`: check that this machine can run a project."""

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

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import answer
from tallyman.engine.spark import class_archive
from tallyman.errors import NotFound
from tallyman.project import Project
from tallyman.registry.status import status
from tallyman.settings import read_settings

STUCK_S = 60
"""After so long a queued task that nobody takes is a problem, if no other one runs."""
Check = tuple[str, bool, str]


Fix = Annotated[
    bool,
    typer.Option(
        "--fix",
        help="Repair what can be repaired: the class archive, what outside readers find.",
    ),
]


def doctor(project: ProjectFolder = None, fix: Fix = False, json_output: AsJson = False) -> None:
    """Check this machine and project: Java, Spark, database, workers."""
    checks = [_python(), _java(), _packages(), _archive(fix), _disk(), _project(project)]
    checks += _database(project, fix)
    answer(
        [{"check": n, "ok": ok, "found": text} for n, ok, text in checks],
        (f"{'ok  ' if ok else 'FAIL'} {name:<9} {text}" for name, ok, text in checks),
        json_output,
    )
    raise typer.Exit(0 if all(ok for _, ok, _ in checks) else 1)


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


def _archive(fix: bool) -> Check:
    found = class_archive.archive()
    if fix and not found.is_file():
        class_archive.make()
    if not found.is_file():
        text = "no archive of Spark's classes: Spark starts about 3 s slower; run: doctor --fix"
        return "classes", True, text
    return "classes", True, f"{found}, {found.stat().st_size / 2**20:,.0f} MiB"


def _disk() -> Check:
    free = shutil.disk_usage(".").free / 2**30
    return "disk", free > 1, f"{free:,.1f} GiB free"


def _project(folder: str | None) -> Check:
    try:
        settings = read_settings(folder)
    except Exception as error:
        return "project", folder is None, f"{error}"
    return "project", True, f"{settings.name} in {settings.home}"


def _database(folder: str | None, fix: bool) -> list[Check]:
    try:
        project = opened(folder)
    except NotFound:
        return []
    found = status(project.database)
    good = found.state != "unreachable"
    text = f"{found.place}, {found.state.replace('_', ' ')}"
    checks = [("database", good, text if good else f"{text}: {found.problem}")]
    if good and found.schema_version == found.program_version:
        checks += [_outside(project, fix), *_workers(project)]
    return checks


def _workers(project: Project) -> list[Check]:
    """Check that tasks are done, if there are any or a server is named."""
    server, tasks = project.workers.server(), project.tasks.backlog()
    checks: list[Check] = []
    if server is not None:
        good, text = server.problem is None and server.workers > 0, str(server)
        start = "run: tallyman server" if server.problem else "run: tallyman worker --help"
        checks.append(("server", good, text if good else f"{text}; {start}"))
    if server is not None or not tasks.empty or tasks.failed:
        stuck = tasks.queued > 0 and tasks.running == 0 and (tasks.oldest_s or 0) > STUCK_S
        text = f"{tasks}; nobody takes them, run: tallyman server" if stuck else str(tasks)
        checks.append(("tasks", not stuck, text))
    return checks


def _outside(project: Project, fix: bool) -> Check:
    """Compare what outside readers find with the current versions."""
    versions = project.versions
    wrong = versions.restore_outside() if fix else versions.differing_outside()
    if not wrong:
        return "outside", True, "outside readers find every published version"
    listed = "; ".join(map(str, wrong))
    if fix:
        return "outside", True, f"restored for outside readers: {listed}"
    return "outside", False, f"{listed}; run: doctor --fix"
