"""`tallyman db`: inspect, migrate and open the project's database."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import asdict
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import answer, as_json
from tallyman.errors import NoReader
from tallyman.registry import migrate as migrations
from tallyman.registry.server.address import shareable
from tallyman.registry.status import DatabaseStatus, psql
from tallyman.registry.status import status as status_of

db = typer.Typer(help="Inspect, migrate and open the project's database.", no_args_is_help=True)
STATES = {
    "never_started": "never started; the first run creates it",
    "stopped": "stopped (started only for this command)",
    "running": "running",
    "unreachable": "does not answer",
}


@db.command()
def status(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Show where the database is, its state, and its contents."""
    found = status_of(opened(project).database)
    answer(asdict(found), (f"{name:<19}{value}" for name, value in _lines(found)), json_output)
    raise typer.Exit(1 if found.state == "unreachable" else 0)


def _lines(found: DatabaseStatus) -> list[tuple[str, str]]:
    lines = [("database", found.place), ("state", STATES[found.state])]
    if found.problem:
        lines.append(("problem", found.problem))
    if found.server_version is not None:
        lines.append(("server", f"PostgreSQL {found.server_version}"))
    lines.append(("tables", _versions(found)))
    if found.size_bytes is not None:
        lines.append(("size", f"{found.size_bytes / 2**20:,.1f} MiB"))
    counts = {
        "runs": found.runs,
        "materializations": found.materializations,
        "other connections": found.other_connections,
    }
    lines += [(name, f"{count:,}") for name, count in counts.items() if count is not None]
    if found.programs is not None:
        lines.append(("programs", found.programs))
    return lines


def _versions(found: DatabaseStatus) -> str:
    has, needs = found.schema_version, found.program_version
    if has is None:
        return f"this program needs version {needs}"
    if has > needs:
        return f"version {has}; this program knows only up to {needs}: install a newer Tallyman"
    if has < needs:
        return f"version {has}; this program needs {needs}: run tallyman db migrate"
    return f"version {has}, up to date"


@db.command()
def migrate(project: ProjectFolder = None, json_output: AsJson = False) -> None:
    """Migrate the tables to the version this program needs, as their owner."""
    database = opened(project).database
    applied = migrations.apply(database.owner_url)
    version = migrations.newest(migrations.known())
    names = [{"version": m.version, "name": m.name} for m in applied]
    lines = [f"applied  {m.version:04d} {m.name}" for m in applied]
    answer(
        {"place": database.place, "applied": names, "version": version},
        lines or f"nothing to do: the tables are at version {version}",
        json_output,
    )


@db.command()
def url(
    show_password: Annotated[
        bool, typer.Option("--show-password", help="Print the password too, if there is one.")
    ] = False,
    owner: Annotated[
        bool,
        typer.Option(
            "--owner",
            help="Log in as the owner of the tables, for pg_dump and pg_restore; on a server of "
            "your own, as the role you configured.",
        ),
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Print a read-only URL for outside readers, and leave the embedded server running.

    Its role may read the published catalog and nothing else. On a server of your own, Tallyman
    makes no role that can log in: it prints the URL of a reader that it finds there, without the
    password.
    """
    database = opened(project).database
    address = database.owner_url if owner else database.reader_url()
    if address is None:
        raise NoReader(database.place)
    shown = shareable(address, show_password=show_password)
    database.close(leave_running=True)
    as_json({"url": shown}) if json_output else print(shown)


@db.command(context_settings={"allow_interspersed_args": False})
def shell(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Arguments for psql, after --. Example: -- -c 'select 1'"),
    ] = None,
    project: ProjectFolder = None,
) -> None:
    """Open psql on the database."""
    command, environment = psql(opened(project).database, arguments or [])
    # Run psql as a child process: this process must stop the embedded server afterwards.
    with subprocess.Popen(command, env=environment) as process:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql
        try:
            code = process.wait()
        finally:
            signal.signal(signal.SIGINT, before)
    raise typer.Exit(code)
