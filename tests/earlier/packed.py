"""A project with its runs and its database in one small file, and back again."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tallyman.registry import migrate
from tallyman.registry.server.address import connect
from tests.world.databases import owner_of

HERE = Path(__file__).parent
FOLDERS = (".tallyman", "data", "pipelines", "runs", "warehouse")
TABLES = """
    SELECT table_schema || '.' || table_name AS name,
           string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)
           FILTER (WHERE is_generated = 'NEVER') AS columns
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')
    GROUP BY 1 ORDER BY 1
"""
SEQUENCES = """
    SELECT schemaname || '.' || sequencename, last_value FROM pg_sequences
    WHERE last_value IS NOT NULL
"""
MIGRATIONS = "public.schema_migrations"
EMPTY = (
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)


def pack(home: Path, address: str, answers: list[Any], file: Path) -> None:
    """Write everything that the code left, and what it answered."""
    with tarfile.open(file, "x:xz", preset=9) as tar:
        for name in FOLDERS:
            tar.add(home / name, name, filter=_wanted)
        for name, content in (*_dumped(address), ("answers.json", _text(answers))):
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))


def _wanted(found: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in found.name or not (found.isfile() or found.isdir() or found.islnk()):
        return None
    found.uname = found.gname = ""
    found.uid = found.gid = 0
    return found


def _text(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _dumped(address: str) -> Iterator[tuple[str, bytes]]:
    with psycopg.connect(owner_of(address)) as connection:
        for name, columns in connection.execute(TABLES).fetchall():
            with connection.cursor().copy(f"COPY {name} ({columns}) TO STDOUT".encode()) as copied:
                text = b"".join(bytes(part) for part in copied)
            if text:
                yield f"database/{name}", f"{columns}\n".encode() + text
        yield "sequences.json", _text(dict(connection.execute(SEQUENCES).fetchall()))


def unpack(file: Path, home: Path, address: str) -> list[Any]:
    """Put the project into a folder, and its rows into tables as they were then, and migrate them;
    return the answers of the time."""
    with tarfile.open(file) as tar:
        tar.extractall(home, filter="data")
    _make_tables(owner_of(address), _migration(home / "database" / MIGRATIONS))
    with psycopg.connect(owner_of(address)) as connection:
        connection.execute("SET session_replication_role = replica")  # rows refer to each other
        for table in sorted((home / "database").iterdir()):
            columns, _, rows = table.read_bytes().partition(b"\n")
            if table.name == MIGRATIONS:
                continue
            connection.execute(b"DELETE FROM " + table.name.encode())
            into = b"COPY %s (%s) FROM STDIN" % (table.name.encode(), columns)
            with connection.cursor().copy(into) as copied:
                copied.write(rows)
        for name, last in json.loads((home / "sequences.json").read_bytes()).items():
            connection.execute("SELECT setval(%s, %s)", [name, last])
    migrate.apply(owner_of(address))
    found: list[Any] = json.loads((home / "answers.json").read_bytes())
    return found


def _migration(dumped: Path) -> int:
    """Return the number of the newest migration that the packing code knew."""
    _, *rows = dumped.read_text().splitlines()
    return max(int(row.split("\t")[0]) for row in rows)


def _make_tables(address: str, newest: int) -> None:
    """Make the tables as they were after a migration, instead of those of now."""
    with connect(address) as connection:
        for statement in EMPTY:
            connection.execute(statement)
        for migration in migrate.known()[:newest]:
            migrate._apply(connection, migration)
