"""The connection breaks around COMMIT: whether it was committed is read back, never guessed.

Every commit has three outcomes; the third is that nobody knows. A wire between the program and
the server loses either the request or the reply of one chosen COMMIT.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import tallyman as tm
from tests.tables.conftest import Tables, all_intact, asked, knows, person, reachable, rows_of
from tests.world.scale import some
from tests.world.wire import Wire, hang_up

# _hold, a fragment for each of two tables, and the publication itself.
TRANSACTIONS = 4
TERMINATE = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND backend_type = 'client backend'
"""


@pytest.fixture
def wire(home: Tables, project: tm.Project) -> Iterator[Wire]:
    known = conninfo_to_dict(project.database.url())
    port = int(known["port"] or 0)
    folder = Path(tempfile.mkdtemp(prefix="wire-", dir="/tmp"))  # the names of sockets are short
    made = Wire(Path(str(known["host"])) / f".s.PGSQL.{port}", folder, port)
    listening = made.open()
    yield made
    hang_up(listening)
    shutil.rmtree(folder)


@pytest.fixture
def wired(
    home: Tables, project: tm.Project, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tm.Project]:
    """The same project, with the wire in between; it is connected already."""
    known = conninfo_to_dict(project.database.url())
    address = project.database.url().replace(str(known["host"]), str(wire.folder))
    monkeypatch.setenv("TALLYMAN_DATABASE_URL", address)
    with home.open() as opened:
        assert opened.heads() == project.heads()
        yield opened


@pytest.mark.parametrize("reply", [True, False], ids=["reply", "request"])
@pytest.mark.parametrize("nth", [*some(range(1, TRANSACTIONS), 1), TRANSACTIONS])
def test_a_mutation_whose_commit_was_lost_on_the_way_happens_exactly_once(
    home: Tables, project: tm.Project, wired: tm.Project, wire: Wire, nth: int, reply: bool
) -> None:
    wire.lose(nth, reply=reply)
    written = wired.mutate([person("Eve", 1), knows("Eve", "Ann")])
    assert wire.cut == 1
    assert project.heads() == {"person": 2, "knows": 1}
    [commit, _] = project.commits()
    assert written.commit == commit
    assert rows_of(project, "knows") == {("Eve", "Ann")}
    project.cleanup(older_than_s=0, confirm=True)
    assert home.files() == reachable(project)
    all_intact(project)


@pytest.mark.parametrize("reply", [True, False], ids=["reply", "request"])
def test_a_rollback_whose_commit_was_lost_on_the_way_happens_exactly_once(
    project: tm.Project, wired: tm.Project, wire: Wire, reply: bool
) -> None:
    first = project.commits()[0]
    project.mutate([person("Eve", 1), knows("Ann", "Bob")])
    for back in (
        lambda: wired.rollback("person", to=1),
        lambda: wired.rollback(commit=str(first.id)),
    ):
        length, heads = len(project.commits()), project.heads()
        wire.lose(1, reply=reply)
        made = back()
        assert made == project.commits()[0]
        assert len(project.commits()) == length + 1
        assert max(project.heads()[name] - heads[name] for name in heads) == 1
    assert wire.cut == 2
    assert rows_of(project, "person") == {("Ann", 31), ("Bob", 42)}


def test_other_things_that_are_said_twice_are_done_once(
    project: tm.Project, wired: tm.Project, wire: Wire
) -> None:
    wire.lose(1, reply=True)
    assert wired.snapshot("person", "people_then").ordinal == 1
    for old, new in (("person", "people"), ("people", "folk")):
        wire.lose(2, reply=True)  # the first one only asks which is meant
        assert wired.rename(old, new).name == new
    assert wire.cut == 3
    made = "SELECT event_type, count(*) AS n FROM audit_log GROUP BY 1 ORDER BY 1"
    counted = {row["event_type"]: row["n"] for row in asked(project, made)}
    assert (counted["snapshot.made"], counted["dataset.renamed"]) == (1, 2)


def test_mutations_go_on_while_their_connections_are_cut_again_and_again(
    project: tm.Project,
) -> None:
    done = threading.Event()
    cut: list[int] = []

    def terminate() -> None:
        with psycopg.connect(project.database.url(), autocommit=True) as other:
            while len(cut) < 10 and not done.wait(0.15):
                cut.append(len(other.execute(TERMINATE).fetchall()))

    worker = threading.Thread(target=terminate)
    worker.start()
    try:
        made = [project.mutate([person(f"P{n}", n), knows(f"P{n}", "Ann")]) for n in range(12)]
    finally:
        done.set()
        worker.join()
    assert any(cut)
    assert project.heads() == {"person": 13, "knows": 12}
    assert [w.commit for w in reversed(made)] == project.commits()[:-1]
    assert rows_of(project, "knows") == {(f"P{n}", "Ann") for n in range(12)}
    all_intact(project)
