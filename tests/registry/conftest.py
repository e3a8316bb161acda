"""What the tests of the memory share: one PostgreSQL per process, emptied for each test, and a
history written by plain SQL, as if runs had left it."""

import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tallyman.errors import TallymanError
from tallyman.registry.database import Database

BEGAN = datetime(2025, 1, 1, tzinfo=UTC)

TABLES = """
    SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'schema_migrations'
"""
ADD_RUN = """
    INSERT INTO runs (id, name, org, project, status, folder, actor, started_at)
    VALUES (%(id)s, %(id)s::text, 'default', 'test', 'success', %(id)s::text, 'test', %(at)s)
"""
ADD = """
    INSERT INTO materializations (
        id, org, project, asset_name, partition, run_id, status, started_at, completed_at,
        completion, inserted_at, reused_id,
        upstream_assets, upstream_partitions, upstream_ids,
        definition_hash, dependency_hash, content_digest, location
    ) VALUES (
        %(id)s, 'default', 'test', %(asset)s, %(partition)s, %(run)s, %(status)s, %(at)s, %(at)s,
        nextval('completions'), %(at)s, %(reused)s,
        %(assets)s::text[], %(partitions)s::text[], %(ids)s::uuid[], 'def', 'dep', 'content',
        'runs/r/a/output'
    )
"""
PASSWORD = "hunter2-s3cret"
NOTE = """
    INSERT INTO audit_log (org, project, event_type, actor_id, resource, action)
    VALUES ('default', 'test', 'test', 'me', 'x', 'y')
"""
NOTES = "SELECT count(*) AS n FROM audit_log"
COMMAND = """
import sys
from pathlib import Path
from tallyman.registry.database import Database

database = Database(None, Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "use":
        with database.transaction() as tx:
            started = tx.execute("SELECT pg_postmaster_start_time()::text AS at").fetchone()
        print(started["at"], flush=True)
    else:
        database.close()
        print("closed", flush=True)
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


class Command:
    """Another process that uses the same project."""

    def __init__(self, state: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def does(self, word: str) -> str:
        self.tell(word)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def shown(error: BaseException) -> str:
    """All that a log, a person or a debugger would see of it."""
    facts = error.facts() if isinstance(error, TallymanError) else ""
    return f"{error} {error!r} {facts} {''.join(traceback.format_exception(error))}"


def postmaster(state: Path) -> int:
    return int((state / "postgres" / "postmaster.pid").read_text().split()[0])


def notes(database: Database) -> int:
    with database.transaction() as tx:
        return tx.execute(NOTES).fetchone()["n"]


def add_note(database: Database) -> None:
    with database.transaction() as tx:
        tx.execute(NOTE)


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


@pytest.fixture
def state(with_database: Callable[[Path], Path], tmp_path: Path) -> Path:
    return with_database(tmp_path)


@pytest.fixture
def own(state: Path) -> Iterator[Database]:
    database = Database(None, state)
    yield database
    database.close()


@pytest.fixture
def command(state: Path) -> Iterator[Callable[[], Command]]:
    begun: list[Command] = []

    def begin() -> Command:
        begun.append(Command(state))
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()
    last = Database(None, state)
    last.url()
    last.close()


@pytest.fixture
def empty(server: Database) -> Iterator[str]:
    """The address, as its owner, of a database without tables."""
    name = f"empty_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.owner_url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name}")
    yield server.owner_url.replace("/tallyman?", f"/{name}?")
    with psycopg.connect(server.owner_url, autocommit=True) as owner:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
