"""Status of a database, found without creating or migrating anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from tallyman.errors import DatabaseUnavailable
from tallyman.registry import migrate
from tallyman.registry.database import Database
from tallyman.registry.server.address import Transaction, brief, connect, without_secrets
from tallyman.registry.server.datafolder import Unusable
from tallyman.registry.server.embedded import Embedded

# An ordinary role cannot see what other roles do, but can see that they are connected.
SERVER = """
    SELECT current_setting('server_version') AS server_version,
           pg_database_size(current_database()) AS size_bytes,
           (SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
              AND coalesce(backend_type, 'client backend') = 'client backend') AS other_connections
"""
COUNTS = """
    SELECT (SELECT count(*) FROM runs) AS runs,
           (SELECT count(*) FROM materializations) AS materializations
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    """The status. `state` is never_started, stopped, running or unreachable; None means unknown."""

    place: str
    embedded: bool
    state: str
    program_version: int
    problem: str | None = None
    server_version: str | None = None
    schema_version: int | None = None
    size_bytes: int | None = None
    runs: int | None = None
    materializations: int | None = None
    other_connections: int | None = None
    programs: str | None = None


def status(database: Database) -> DatabaseStatus:
    """Collect the status. A stopped embedded server is started for it, if it was ever created."""
    needed = migrate.newest(migrate.known())
    facts: dict[str, object] = {"state": "running"}
    try:
        if database.embedded:
            own = Embedded(database.state)
            if not own.data.exists:
                facts["state"] = "never_started"
            elif not own.running:
                facts["state"] = "stopped"
            facts["programs"] = str(own.data.programs)
        if facts["state"] != "never_started":
            facts |= _answers(database)
    except DatabaseUnavailable as error:
        facts |= {"state": "unreachable", "problem": error.reason}
    except (OSError, Unusable, psycopg.Error) as error:
        facts |= {"state": "unreachable", "problem": brief(error)}
    known = {"place": database.place, "embedded": database.embedded, "program_version": needed}
    return DatabaseStatus(**known, **facts)  # type: ignore[arg-type]


def _answers(database: Database) -> dict[str, object]:
    with connect(database.url(), database.place) as connection:
        found: dict[str, object] = dict(connection.execute(SERVER).fetchone() or {})
        found["schema_version"] = migrate.version_of(connection)
        return found | _counts(connection)


def _counts(connection: Transaction) -> dict[str, object]:
    try:
        return dict(connection.execute(COUNTS).fetchone() or {})
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        return {}


def psql(database: Database, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the psql command and its environment; the password is not on the command line, which
    everybody can see."""
    address, password = without_secrets(database.url())
    found = None if database.embedded else shutil.which("psql")
    program = found or str(Embedded(database.state).data.programs / "psql")
    secret = {} if password is None else {"PGPASSWORD": password}
    return [program, f"--dbname={address}", *arguments], {**os.environ, **secret}
