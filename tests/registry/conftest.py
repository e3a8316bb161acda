"""What the tests of the memory share: one PostgreSQL per process, emptied for each test, and a
history written by plain SQL, as if runs had left it."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tallyman.registry.database import Database

BEGAN = datetime(2025, 1, 1, tzinfo=UTC)

TABLES = """
    SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'schema_migrations'
"""
ADD_RUN = """
    INSERT INTO runs (id, name, project, status, folder, actor, started_at)
    VALUES (%(id)s, %(id)s::text, 'test', 'success', %(id)s::text, 'test', %(at)s)
"""
ADD = """
    INSERT INTO materializations (
        id, asset_name, partition, run_id, status, started_at, completed_at, inserted_at, reused_id,
        upstream_assets, upstream_partitions, upstream_ids,
        definition_hash, dependency_hash, content_digest, location
    ) VALUES (
        %(id)s, %(asset)s, %(partition)s, %(run)s, %(status)s, %(at)s, %(at)s, %(at)s, %(reused)s,
        %(assets)s::text[], %(partitions)s::text[], %(ids)s::uuid[], 'def', 'dep', 'content',
        'runs/r/a/output'
    )
"""


@dataclass(frozen=True)
class Made:
    """One materialization; a source has no id."""

    asset: str
    partition: str | None = None
    id: uuid.UUID | None = None


@dataclass
class History:
    """Each addition is a minute after the one before."""

    database: Database
    now: datetime = BEGAN
    run: uuid.UUID | None = None

    def begin(self) -> uuid.UUID:
        """A new run, to which all that follows belongs."""
        self.run = uuid.uuid4()
        with self.database.transaction() as tx:
            tx.execute(ADD_RUN, {"id": self.run, "at": self.now})
        return self.run

    def add(
        self,
        asset: str,
        partition: str | None = None,
        *,
        reads: tuple[Made, ...] = (),
        status: str = "success",
        reused: Made | None = None,
    ) -> Made:
        """Inputs are kept by a success, and by what was skipped because of one."""
        made = Made(asset, partition, uuid.uuid4())
        kept = reads if status in ("success", "skipped") else None
        self.now += timedelta(minutes=1)
        row = {
            "id": made.id,
            "asset": asset,
            "partition": partition,
            "run": self.run or self.begin(),
            "status": status,
            "at": self.now,
            "reused": reused.id if reused else None,
            "assets": None if kept is None else [read.asset for read in kept],
            "partitions": None if kept is None else [read.partition for read in kept],
            "ids": None if kept is None else [read.id for read in kept],
        }
        with self.database.transaction() as tx:
            tx.execute(ADD, row)
        return made


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Shared by all tests of the process: do not close it, do not change its tables."""
    database = Database(None, tmp_path_factory.mktemp("state"))
    yield database
    database.close()


@pytest.fixture
def database(server: Database) -> Database:
    """Migrated and without a row."""
    with server.transaction():
        pass  # the first one makes the tables
    with psycopg.connect(server.owner_url, autocommit=True) as owner:
        [[tables]] = owner.execute(TABLES).fetchall()
        owner.execute("SET session_replication_role = replica")  # the audit log refuses otherwise
        owner.execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")
    return server


@pytest.fixture
def history(database: Database) -> History:
    return History(database)
