"""Migrations: numbered SQL files, each applied once, one program at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources

import psycopg

from tallyman.errors import (
    DatabaseBehind,
    DatabaseNewer,
    DatabaseUnavailable,
    OtherFormat,
    UsageError,
)
from tallyman.registry.server.address import Transaction, brief, connect, redacted

LOCK = 0x7A11_0001
"""The advisory lock of a migration; other programs wait for it and then find the work done."""
PATIENCE = "60s"

TABLE = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        version    integer PRIMARY KEY,
        name       varchar(255) NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""
PRESENT = "SELECT to_regclass('schema_migrations') IS NOT NULL AS present"
APPLIED = "SELECT version, name FROM schema_migrations ORDER BY version"
RECORD = "INSERT INTO schema_migrations (version, name) VALUES (%s, %s)"


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


def known() -> list[Migration]:
    """List the migrations in order, without gaps."""
    found = []
    for file in resources.files("tallyman.registry").joinpath("migrations").iterdir():
        named = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if named:
            text = file.read_text(encoding="utf-8")
            found.append(Migration(int(named[1]), named[2], text))
    found.sort(key=lambda migration: migration.version)
    assert [m.version for m in found] == list(range(1, len(found) + 1))
    return found


def newest(migrations: Sequence[Migration]) -> int:
    return migrations[-1].version


def version(url: str) -> int:
    """Return the schema version of the database; 0 if it is empty."""
    with _connected(url) as connection:
        return version_of(connection)


def version_of(connection: Transaction) -> int:
    """Return the schema version; OtherFormat if the first migrations are not those of this
    program."""
    present = connection.execute(PRESENT).fetchone()
    if not present or not present["present"]:
        return 0
    try:
        applied = connection.execute(APPLIED).fetchall()
    except psycopg.errors.InsufficientPrivilege as error:
        raise _not_allowed(connection, "read", error) from None
    except psycopg.errors.UndefinedColumn:
        raise OtherFormat(_shown(connection), "another program") from None
    for row, ours in zip(applied, known(), strict=False):
        if row["name"] != ours.name:
            made_by = f"another Tallyman: its migration {ours.version} is {row['name']!r}, "
            raise OtherFormat(_shown(connection), f"{made_by}here it is {ours.name!r}")
    return int(applied[-1]["version"]) if applied else 0


def _shown(connection: Transaction) -> str:
    return f"the database {connection.info.dbname!r}"


def ensure(url: str, *, automatic: bool) -> None:
    """Create the tables in an empty database; migrate an older one only if `automatic` is set."""
    needed, found = newest(known()), version(url)
    if found > needed:
        raise DatabaseNewer(found, needed)
    if found == needed:
        return
    if found and not automatic:
        raise DatabaseBehind(found, needed)
    apply(url)


def apply(url: str) -> list[Migration]:
    """Apply the missing migrations, and return them in order."""
    migrations = known()
    with _connected(url) as connection:
        found = version_of(connection)
        if found > newest(migrations):
            raise DatabaseNewer(found, newest(migrations))
        try:
            return [m for m in migrations[found:] if _apply(connection, m)]
        except psycopg.errors.InsufficientPrivilege as error:
            raise _not_allowed(connection, "change", error) from None


@contextmanager
def _connected(url: str) -> Iterator[Transaction]:
    try:
        with connect(url) as connection:
            yield connection
    except psycopg.errors.LockNotAvailable:
        reason = f"another program has been migrating it, or holds its tables, for {PATIENCE}"
        raise DatabaseUnavailable(redacted(url), reason) from None
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(redacted(url), brief(error)) from None


def _apply(connection: Transaction, migration: Migration) -> bool:
    """Apply one migration; False if another program did it while this one waited for the lock."""
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [PATIENCE])
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        # Create the table before reading it: a failed lookup of its name would be cached.
        connection.execute(TABLE)
        found = version_of(connection)
        if found > newest(known()):
            raise DatabaseNewer(found, newest(known()))
        if found >= migration.version:
            return False
        connection.execute(migration.sql.encode())
        connection.execute(RECORD, [migration.version, migration.name])
        return True


def _not_allowed(connection: Transaction, what: str, error: psycopg.Error) -> UsageError:
    role = connection.info.user
    said = error.diag.message_primary or "not allowed"
    return UsageError(
        f"role {role!r} may not {what} the tables of this database ({said}). Their owner runs "
        f"`tallyman db migrate`; others need: GRANT tallyman_app TO {role}"
    )
