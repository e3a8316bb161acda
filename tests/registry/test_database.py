"""The database's life and death.

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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tallyman.errors import (
    DatabaseUnavailable,
)
from tallyman.registry.database import Database
from tallyman.registry.server.embedded import Embedded
from tests.registry.conftest import (
    NOTE,
    NOTES,
    PASSWORD,
    Command,
    add_note,
    notes,
    postmaster,
    shown,
)
from tests.world.scale import some


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


def test_a_client_that_ends_at_that_moment_does_not_keep_it_running(
    state: Path, own: Database
) -> None:
    ending = threading.Timer(0.1, psycopg.connect(own.url()).close)
    ending.start()
    own.close()
    ending.join()
    assert not Embedded(state).running


def test_a_forked_child_neither_holds_the_server_nor_disturbs_its_parent(state: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from tallyman.registry.database import Database
from tallyman.registry.server.embedded import Embedded

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


@pytest.mark.parametrize("how", some([signal.SIGINT, signal.SIGQUIT, signal.SIGKILL], 1))
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
