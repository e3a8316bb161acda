"""The database: its life and death, its tables, and that its password stays its own.

Servers and their users are real processes here, ended with real signals.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import typer
from typer.testing import CliRunner

from tallyman.cli import db
from tallyman.cli.options import close_all
from tallyman.errors import (
    DatabaseBehind,
    DatabaseNewer,
    DatabaseUnavailable,
    TallymanError,
    UsageError,
)
from tallyman.registry import migrate
from tallyman.registry.address import redacted, shareable
from tallyman.registry.database import Database
from tallyman.registry.embedded import Embedded
from tallyman.registry.status import psql, status
from tallyman.settings import Secret, read_settings

PASSWORD = "hunter2-s3cret"
NOTE = """
    INSERT INTO audit_log (event_type, actor_id, resource, action) VALUES ('test', 'me', 'x', 'y')
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's state with a database that is made, migrated and stopped."""
    state = tmp_path_factory.mktemp("made") / ".tallyman"
    database = Database(None, state)
    with database.transaction():
        pass
    database.close()
    return state


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    """A copy of it: making one takes longer."""
    subprocess.run(["cp", "-a", str(made), str(tmp_path / ".tallyman")], check=True)
    return tmp_path / ".tallyman"


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


def postmaster(state: Path) -> int:
    return int((state / "postgres" / "postmaster.pid").read_text().split()[0])


def notes(database: Database) -> int:
    with database.transaction() as tx:
        return tx.execute(NOTES).fetchone()["n"]


def add_note(database: Database) -> None:
    with database.transaction() as tx:
        tx.execute(NOTE)


# ---- its life ------------------------------------------------------------------------------


def test_commands_that_start_at_once_share_one_server_and_the_last_one_stops_it(
    tmp_path: Path,
) -> None:
    commands = [Command(tmp_path / ".tallyman") for _ in range(4)]  # it was never made
    own = Embedded(tmp_path / ".tallyman")
    try:
        assert [one.hear() for one in commands] == ["ready"] * 4
        for one in commands:
            one.tell("use")
        assert len({one.hear() for one in commands}) == 1
        for one in commands:
            assert own.running
            assert one.does("close") == "closed"
        assert not own.running
    finally:
        for one in commands:
            one.kill()


def test_a_killed_command_does_not_keep_it_running_for_ever(
    state: Path, command: Callable[[], Command]
) -> None:
    killed, next_one = command(), command()
    assert [killed.hear(), next_one.hear()] == ["ready", "ready"]
    started = killed.does("use")
    killed.kill()
    assert Embedded(state).running
    assert next_one.does("use") == started
    assert next_one.does("close") == "closed"
    assert not Embedded(state).running


def test_a_client_that_is_not_ours_keeps_it_running(state: Path, own: Database) -> None:
    with psycopg.connect(own.url()) as client:
        own.close()
        assert client.execute("SELECT 1").fetchone() == (1,)
    own.url()
    own.close()
    assert not Embedded(state).running


def test_a_forked_child_neither_holds_the_server_nor_disturbs_its_parent(state: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from tallyman.registry.database import Database
from tallyman.registry.embedded import Embedded

def backend(database):
    with database.transaction() as tx:
        return tx.execute("SELECT pg_backend_pid()::text AS pid").fetchone()["pid"]

database = Database(None, Path(sys.argv[1]))
mine = backend(database)
asked, answer = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    theirs = backend(database)
    database.close()  # before the answer: a child that is not done keeps the server for itself
    os.write(answer[1], theirs.encode())
    os.read(asked[0], 1)  # still there when the parent has gone
    os._exit(0)
theirs = os.read(answer[0], 20).decode()
print(mine != theirs, mine == backend(database))
for _ in range(2):  # the second time as any other command
    backend(database)
    database.close()
    print(Embedded(Path(sys.argv[1])).running)
os.write(asked[1], b"x")
os.waitpid(child, 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(state)], capture_output=True, text=True, timeout=150
    )
    assert done.stdout.split() == ["True", "True", "False", "False"], done.stderr


def test_it_may_be_used_from_many_threads(own: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add_note(own), range(80)))
    assert notes(own) == 80


def test_a_transaction_that_fails_leaves_nothing_and_a_usable_connection(own: Database) -> None:
    def add_and_fail() -> None:
        with own.transaction() as tx:
            tx.execute(NOTE)
            tx.execute("SELECT 1 / 0")

    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            add_and_fail()
    assert notes(own) == 0
    assert len(own._idle) == 1


# ---- its deaths ----------------------------------------------------------------------------


def test_what_was_committed_is_there_after_the_server_was_killed(
    state: Path, own: Database
) -> None:
    add_note(own)
    os.kill(postmaster(state), signal.SIGKILL)
    assert own.durably(lambda tx: tx.execute(NOTES).fetchone()["n"]) == 1
    os.kill(postmaster(state), signal.SIGKILL)
    gone(state)
    assert notes(own) == 1, "a plain transaction starts it again too"


def gone(state: Path) -> None:
    while Embedded(state).running:
        time.sleep(0.01)


def test_a_busy_child_of_a_killed_server_is_ended(state: Path, own: Database) -> None:
    with psycopg.connect(own.url(), autocommit=True) as client:
        busy = threading.Thread(target=spin, args=[client])
        busy.start()
        wait_until_busy(own)
        os.kill(postmaster(state), signal.SIGKILL)
        add_note(own)
        busy.join()
    assert notes(own) == 1


def spin(client: psycopg.Connection) -> None:
    with contextlib.suppress(psycopg.OperationalError):
        client.execute("SELECT count(*) FROM generate_series(1, 1000000000000)")


def wait_until_busy(own: Database) -> None:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series%'"
    with psycopg.connect(own.owner_url, autocommit=True) as watcher:
        while watcher.execute(f"{asked} AND pid <> pg_backend_pid()").fetchone() == (0,):
            time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_durable_work_survives_the_end_of_the_server_in_the_middle(
    state: Path, own: Database, how: signal.Signals
) -> None:
    tries = []

    def work(tx: psycopg.Connection) -> None:
        tx.execute(NOTE)
        tries.append(1)
        if len(tries) == 1:
            os.kill(postmaster(state), how)
            gone(state)
        tx.execute(NOTE)

    own.durably(work)
    assert (len(tries), notes(own)) == (2, 2)


def test_durable_work_gives_up_on_a_server_that_is_gone(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        dead = Database(f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/x", tmp_path)
        begun = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match=f"me@127.0.0.1:{port}/x") as error:
            dead.durably(lambda tx: tx.execute("SELECT 1"), patience=0.5)
        assert 0.5 <= time.monotonic() - begun < 10
    assert PASSWORD not in shown(error.value)


def test_durable_work_waits_for_a_configured_server_and_then_gives_up(
    state: Path, own: Database, tmp_path: Path
) -> None:
    configured = Database(own.owner_url, tmp_path)
    add_note(configured)
    os.kill(postmaster(state), signal.SIGINT)
    gone(state)
    back = threading.Timer(0.5, own.durably, [lambda tx: tx.execute("SELECT 1")])
    back.start()
    assert configured.durably(lambda tx: tx.execute(NOTES).fetchone()["n"]) == 1
    back.join()
    own.close()
    with pytest.raises(DatabaseUnavailable):
        configured.durably(lambda tx: tx.execute(NOTE), patience=0.5)
    configured.close()


def test_a_number_of_a_killed_server_that_is_in_use_again_does_not_matter(state: Path) -> None:
    folder = state / "postgres"
    with subprocess.Popen(["sleep", "60"], user=folder.stat().st_uid) as other:
        stale = f"{other.pid}\n{folder}\n1\n5432\n{folder}\n\n 1 1\nready   \n"
        (folder / "postmaster.pid").write_text(stale)
        (folder / ".s.PGSQL.5432.lock").write_text(stale)
        assert not Embedded(state).running
        database = Database(None, state)
        assert notes(database) == 0
        database.close()
        assert other.poll() is None
        other.kill()


def test_what_a_killed_first_start_left_is_swept_away(tmp_path: Path) -> None:
    half_made = tmp_path / "postgres.new-x"
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18\n")
    database = Database(None, tmp_path)
    assert notes(database) == 0
    database.close()
    assert not half_made.exists()


# ---- its places ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder",
    ["a b", "$(exit 1) `x` \"q\" 'p' \\ , 50%41 é+&", "/".join(["long" * 20] * 3)],
    ids=["space", "odd", "long"],
)
def test_the_project_may_be_anywhere(made: Path, tmp_path: Path, folder: str) -> None:
    home = tmp_path / folder
    home.mkdir(parents=True)
    subprocess.run(["cp", "-a", str(made), str(home)], check=True)
    database = Database(None, home / ".tallyman")
    add_note(database)
    with psycopg.connect(shareable(database.url(), show_password=False)) as other:
        assert other.execute(NOTES).fetchone() == (1,)
    database.close()
    assert not Embedded(home / ".tallyman").running


def test_a_project_that_is_moved_while_its_server_runs_finds_it_again(
    state: Path, own: Database, tmp_path: Path
) -> None:
    add_note(own)
    own.close(leave_running=True)
    moved = state.rename(tmp_path / "moved")
    database = Database(None, moved)
    assert notes(database) == 1
    database.close()
    assert not Embedded(moved).running


@pytest.mark.skipif(os.geteuid() != 0, reason="then all other tests are run by an ordinary user")
def test_an_ordinary_user_has_a_server_too_and_root_may_share_it(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from tallyman.errors import DatabaseUnavailable
from tallyman.registry.database import Database

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for home in sys.argv[1:]:
    database = Database(None, Path(home) / ".tallyman")
    try:
        with database.transaction() as tx:
            print(tx.execute("SELECT 'works' AS it").fetchone()["it"])
    except DatabaseUnavailable as error:
        print(error.reason)
    database.close()
"""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o001)
    theirs, closed = tmp_path / "theirs", tmp_path / "closed"
    theirs.mkdir()
    closed.mkdir()
    os.chown(theirs, 65534, 65534)
    done = subprocess.run(
        [sys.executable, "-c", code, str(theirs), str(closed)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["works", f"Permission denied ({closed}/.tallyman)"]
    root = Database(None, theirs / ".tallyman")
    assert notes(root) == 0
    root.close()
    assert {path.stat().st_uid for path in (theirs / ".tallyman").rglob("*")} == {65534}


def test_a_place_that_cannot_hold_it_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnavailable, match="Not a directory"):
        Database(None, tmp_path / "file" / ".tallyman").url()
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "mine").write_text("")
    with pytest.raises(DatabaseUnavailable, match="not empty, and not a database"):
        Database(None, tmp_path).url()
    (tmp_path / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DatabaseUnavailable, match="PostgreSQL 12, which is not here"):
        Database(None, tmp_path).url()


def test_a_server_that_cannot_start_says_why(state: Path) -> None:
    with (state / "postgres" / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = nonsense\n")
    with pytest.raises(DatabaseUnavailable, match=r"did not start: .*shared_buffers"):
        Database(None, state).url()


# ---- its tables ----------------------------------------------------------------------------


def test_a_newer_database_is_refused_with_both_numbers(own: Database) -> None:
    known = migrate.newest(migrate.known())
    with psycopg.connect(own.owner_url) as owner:
        owner.execute("INSERT INTO schema_migrations VALUES (999, 'from_the_future')")
    refused = f"version 999, and this program knows only up to version {known}"
    with pytest.raises(DatabaseNewer, match=refused):
        add_note(own)
    with pytest.raises(DatabaseNewer, match=refused):
        migrate.apply(own.owner_url)
    assert status(own).schema_version == 999


def test_a_configured_database_that_is_behind_is_only_migrated_on_demand(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(empty, tmp_path)
    add_note(database)  # an empty one is filled
    database.close()
    now = migrate.known()
    later = migrate.Migration(len(now) + 1, "later", "CREATE TABLE later (n integer)")
    monkeypatch.setattr(migrate, "known", lambda: [*now, later])
    with pytest.raises(DatabaseBehind, match=f"version {len(now)}; .* needs {len(now) + 1}"):
        add_note(database)
    assert migrate.version(empty) == len(now)
    assert migrate.apply(empty) == [later]
    assert migrate.apply(empty) == []
    assert notes(database) == 1
    database.close()


def test_a_migration_that_fails_leaves_the_version_before(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = migrate.known()
    broken = migrate.Migration(len(now) + 1, "broken", "CREATE TABLE half (n int); SELECT 1 / 0")
    monkeypatch.setattr(migrate, "known", lambda: [*now, broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.apply(empty)
    assert migrate.version(empty) == len(now)
    with psycopg.connect(empty) as owner:
        assert owner.execute("SELECT to_regclass('half')").fetchone() == (None,)


def test_of_two_migrators_one_does_the_work(empty: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: migrate.apply(empty), range(4)))
    assert sorted(m.version for done in applied for m in done) == [
        m.version for m in migrate.known()
    ]


def test_a_role_without_rights_is_told_what_it_needs(empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty, autocommit=True) as owner, contextlib.suppress(psycopg.Error):
        owner.execute("CREATE ROLE stranger LOGIN")
    stranger = Database(empty.replace("//postgres@", "//stranger@"), tmp_path)
    with pytest.raises(UsageError, match=r"'stranger' may not change .* GRANT tallyman_app TO"):
        add_note(stranger)
    migrate.apply(empty)
    with pytest.raises(UsageError, match=r"'stranger' may not read .* GRANT tallyman_app TO"):
        add_note(stranger)
    with psycopg.connect(empty, autocommit=True) as owner:
        owner.execute("GRANT tallyman_app TO stranger")
    add_note(stranger)
    stranger.close()


@pytest.mark.parametrize(
    "change", ["UPDATE audit_log SET action = 'z'", "DELETE FROM audit_log", "TRUNCATE audit_log"]
)
def test_the_audit_log_only_grows(database: Database, change: str) -> None:
    add_note(database)
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"),
        database.transaction() as tx,
    ):
        tx.execute(change)
    with (
        psycopg.connect(database.owner_url) as owner,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"),
    ):
        owner.execute(change)
    assert notes(database) == 1


RUN = """
    INSERT INTO runs (id, name, project, status, folder, actor, started_at)
    VALUES (%(run)s, %(run)s::text, 'p', 'success', 'f', 'me', now())
"""
MATERIALIZATION = """
    INSERT INTO materializations (asset_name, run_id, status) VALUES ('a', %(run)s, %(status)s)
"""


@pytest.fixture
def run(database: Database) -> uuid.UUID:
    run = uuid.uuid4()
    with database.transaction() as tx:
        tx.execute(RUN, {"run": run})
    return run


@pytest.mark.parametrize("status", ["done", "SUCCESS", ""])
def test_a_status_nobody_knows_is_refused(database: Database, run: uuid.UUID, status: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation), database.transaction() as tx:
        tx.execute(MATERIALIZATION, {"run": run, "status": status})
    with pytest.raises(psycopg.errors.CheckViolation), database.transaction() as tx:
        tx.execute("UPDATE runs SET status = %s", [status])


@pytest.mark.parametrize("status", ["pending", "running", "failed", "waiting_approval"])
def test_the_statuses_of_the_seed_are_known(
    database: Database, run: uuid.UUID, status: str
) -> None:
    with database.transaction() as tx:
        tx.execute(MATERIALIZATION, {"run": run, "status": status})


def test_one_asset_has_one_row_in_a_run_however_many_start_it(
    database: Database, run: uuid.UUID
) -> None:
    together = threading.Barrier(8)

    def start(_: int) -> bool:
        with database.transaction() as tx:
            together.wait()
            tx.execute(MATERIALIZATION, {"run": run, "status": "running"})
        return True

    def started(n: int) -> bool:
        try:
            return start(n)
        except psycopg.errors.UniqueViolation:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(started, range(8))) == 1


SEED = [
    ("id", "uuid", None),
    ("asset_name", "character varying", 255),
    ("partition", "character varying", 255),
    ("run_id", "uuid", None),
    ("status", "character varying", 50),
    ("started_at", "timestamp with time zone", None),
    ("completed_at", "timestamp with time zone", None),
    ("duration_ms", "integer", None),
    ("upstream_assets", "ARRAY", None),
    ("upstream_partitions", "ARRAY", None),
    ("dependency_hash", "character varying", 64),
    ("metadata", "jsonb", None),
    ("error_message", "text", None),
    ("executor_node", "character varying", 255),
    ("inserted_at", "timestamp with time zone", None),
    ("updated_at", "timestamp with time zone", None),
]
COLUMNS = """
    SELECT column_name, data_type, character_maximum_length, udt_name, is_nullable, column_default
    FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position
"""


def test_the_view_of_materializations_is_the_seeds_table(database: Database) -> None:
    with database.transaction() as tx:
        view = tx.execute(COLUMNS, ["flowstone_materializations"]).fetchall()
        table = {c["column_name"]: c for c in tx.execute(COLUMNS, ["materializations"])}
    found = [(c["column_name"], c["data_type"], c["character_maximum_length"]) for c in view]
    assert found == SEED
    assert {c["udt_name"] for c in view if c["data_type"] == "ARRAY"} == {"_text"}
    needed = {name for name, column in table.items() if column["is_nullable"] == "NO"}
    assert {"id", "asset_name", "run_id", "status", "inserted_at", "updated_at"} <= needed
    assert table["status"]["column_default"].startswith("'pending'")
    assert table["metadata"]["column_default"].startswith("'{}'")
    assert {table[c]["column_default"] for c in ("inserted_at", "updated_at")} == {"now()"}


def test_materializations_are_found_by_what_people_ask_for(database: Database) -> None:
    indexed = "SELECT indexdef FROM pg_indexes WHERE tablename = 'materializations'"
    with database.transaction() as tx:
        found = " ".join(row["indexdef"] for row in tx.execute(indexed))
    for asked in (
        "(asset_name, partition)",
        "(run_id)",
        "(status)",
        "(inserted_at DESC)",
        "gin (upstream_assets)",
    ):
        assert asked in found


# ---- its secrets ---------------------------------------------------------------------------


def shown(error: BaseException) -> str:
    """All that a log, a person or a debugger would see of it."""
    facts = error.facts() if isinstance(error, TallymanError) else ""
    return f"{error} {error!r} {facts} {''.join(traceback.format_exception(error))}"


@pytest.fixture(scope="module")
def guarded(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An address whose password the server checks."""
    home = tmp_path_factory.mktemp("guarded")
    subprocess.run(["cp", "-a", str(made), str(home)], check=True)
    rules = home / ".tallyman" / "postgres" / "pg_hba.conf"
    rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
    database = Database(None, home / ".tallyman")
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}' IN ROLE tallyman_app")
    yield database.url().replace("tallyman@", f"guarded:{PASSWORD}@", 1)
    database.close()


def test_the_password_is_used_and_not_shown(guarded: str, tmp_path: Path) -> None:
    database = Database(guarded, tmp_path)
    found = status(database)
    assert (found.state, found.runs) == ("running", 0)
    assert PASSWORD not in f"{found} {database!r} {database.place} {redacted(guarded)}"
    assert ":***@" in shareable(guarded, show_password=False)
    assert PASSWORD not in shareable(guarded, show_password=False)
    command, environment = psql(database, ["-Atc", "SELECT current_user"])
    assert PASSWORD not in " ".join(command)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "guarded\n"


def test_a_wrong_password_is_refused_at_once_and_not_shown(guarded: str, tmp_path: Path) -> None:
    wrong = guarded.replace(PASSWORD, "wr0ng-0ne")
    database = Database(wrong, tmp_path)
    begun = time.monotonic()
    with pytest.raises(DatabaseUnavailable, match="password authentication failed") as error:
        database.durably(lambda tx: tx.execute("SELECT 1"))
    assert time.monotonic() - begun < 5
    found = status(database)
    assert found.state == "unreachable"
    assert "wr0ng" not in f"{shown(error.value)} {found}"
    with pytest.raises(DatabaseUnavailable) as error:
        migrate.apply(wrong)
    assert "wr0ng" not in shown(error.value)


MALFORMED = [
    f"postgresql://me:{PASSWORD}/x@host/db",
    f"postgresql://me:x@{PASSWORD}@host/db",
    f"postgresql://me:x?{PASSWORD}@host/db",
    f"postgresql://me:{PASSWORD}",
    f"postgresql://me:x%zz{PASSWORD}@host/db",
    f"postgresql://me:x@host:{PASSWORD}/db",
    f"host=h password=x {PASSWORD}",
    f"host=h password='{PASSWORD}",
    f"password={PASSWORD} nonsense=1",
    f"mysql://me:{PASSWORD}@host/db",
    PASSWORD,
]


@pytest.mark.parametrize("address", MALFORMED)
def test_a_malformed_address_is_refused_without_quoting_it(address: str, tmp_path: Path) -> None:
    database = Database(address, tmp_path)
    for attempt in (
        lambda: database.durably(lambda tx: tx.execute("SELECT 1")),
        lambda: migrate.apply(address),
        lambda: shareable(address, show_password=False),
        lambda: psql(database, []),
    ):
        with pytest.raises(DatabaseUnavailable) as error:
            attempt()
        assert PASSWORD not in shown(error.value)
    assert PASSWORD not in f"{redacted(address)} {database.place} {status(database)}"


def test_an_unreachable_host_is_named_without_the_password(tmp_path: Path) -> None:
    database = Database(f"postgresql://me:{PASSWORD}@nowhere.invalid/db", tmp_path)
    with pytest.raises(DatabaseUnavailable, match=r"me@nowhere\.invalid") as error:
        add_note(database)
    assert PASSWORD not in shown(error.value)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://me:pw@h:5433/db?sslmode=require", "//me:***@h:5433/db?sslmode=require"),
        ("host=h user=me password='p w' dbname=db", "//me:***@h/db"),
        ("host=a,b port=1,2 dbname=db", "///db?host=a%2Cb&port=1%2C2"),
        ("postgresql://me@/db?host=/a%20b", "//me@/db?host=/a%20b"),
        ("postgresql://h/db?sslpassword=pw", "//h/db?sslpassword=***"),
    ],
)
def test_an_address_for_others_keeps_all_but_the_secrets(address: str, expected: str) -> None:
    assert shareable(address, show_password=False) == f"postgresql:{expected}"
    again = psycopg.conninfo.conninfo_to_dict(shareable(address, show_password=True))
    assert again == psycopg.conninfo.conninfo_to_dict(address)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tallyman.yaml").write_text("name: sales\n")
    monkeypatch.delenv("TALLYMAN_DATABASE_URL", raising=False)
    return tmp_path


def test_the_environment_wins_over_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings(home).database is None
    (home / "tallyman.yaml").write_text("database: postgresql://file/db\n")
    assert read_settings(home).database == Secret("postgresql://file/db")
    monkeypatch.setenv("TALLYMAN_DATABASE_URL", f"postgresql://me:{PASSWORD}@environment/db")
    settings = read_settings(home)
    assert settings.database is not None
    assert settings.database.reveal() == f"postgresql://me:{PASSWORD}@environment/db"
    assert PASSWORD not in f"{settings} {settings.database}"


@pytest.mark.parametrize(
    "text", [f"mysql://me:{PASSWORD}@h/d", *MALFORMED[:4], PASSWORD, "[1, 2]", "{a: b}", "7"]
)
def test_an_address_that_cannot_be_right_is_a_usage_error(home: Path, text: str) -> None:
    (home / "tallyman.yaml").write_text(f"database: {text}\n")
    with pytest.raises(UsageError, match="database: ") as error:
        read_settings(home)
    assert PASSWORD not in shown(error.value)


def test_a_file_that_is_not_yaml_is_refused_without_quoting_it(home: Path) -> None:
    (home / "tallyman.yaml").write_text(f'database: "postgresql://me:{PASSWORD}@h/d\n')
    with pytest.raises(UsageError, match="line ") as error:
        read_settings(home)
    assert PASSWORD not in shown(error.value)


# ---- its commands --------------------------------------------------------------------------


@pytest.fixture
def tallyman(home: Path, state: Path) -> Iterator[Callable[..., str]]:
    app = typer.Typer()
    db.register(app)
    app.callback()(lambda: None)

    def run(*arguments: str) -> str:
        words = ["db", arguments[0], "-C", str(home), *arguments[1:]]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        close_all()
        return done.output

    yield run
    run("status")


def test_asking_for_the_status_makes_nothing(
    tallyman: Callable[..., str], home: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "new"
    elsewhere.mkdir()
    (elsewhere / "tallyman.yaml").write_text("name: new\n")
    assert "never started" in tallyman("status", "-C", str(elsewhere))
    assert not (elsewhere / ".tallyman").exists()


def test_the_status_tells_what_is_there(tallyman: Callable[..., str], home: Path) -> None:
    assert "stopped (started to answer this)" in tallyman("status")
    assert not Embedded(home / ".tallyman").running
    address = tallyman("url").strip()
    with psycopg.connect(address) as other:
        assert other.execute(NOTES).fetchone() == (0,)
        told = tallyman("status")
    for line in ("state              running", "server             PostgreSQL 18", "runs"):
        assert line in told
    assert "other connections  1" in told


def test_migrating_tells_what_was_applied(tallyman: Callable[..., str], empty: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYMAN_DATABASE_URL", empty)
        assert tallyman("migrate").startswith("applied  0001 history\n")
        assert "nothing to do" in tallyman("migrate")
        assert "what this program needs" in tallyman("status")


def test_the_shell_is_psql_and_its_end_is_ours(
    tallyman: Callable[..., str], home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tallyman("shell", "--", "-Atc", "SELECT current_user || ' is in'")
    assert capfd.readouterr().out == "tallyman is in\n"
    assert not Embedded(home / ".tallyman").running


def test_the_address_of_the_owner_is_enough_for_a_backup(
    tallyman: Callable[..., str], home: Path
) -> None:
    address = tallyman("url", "--owner").strip()
    dump = Embedded(home / ".tallyman").programs / "pg_dump"
    done = subprocess.run([str(dump), address], capture_output=True, text=True, check=True)
    assert "CREATE TABLE public.materializations" in done.stdout


def test_the_password_is_printed_on_demand_only(tallyman: Callable[..., str], guarded: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYMAN_DATABASE_URL", guarded)
        assert PASSWORD not in tallyman("url") + tallyman("status") + tallyman("status", "--json")
        assert quote(PASSWORD) in tallyman("url", "--show-password")
