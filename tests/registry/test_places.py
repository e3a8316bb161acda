"""Where a project and its database may be, and what is said where they cannot."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tallyman.errors import (
    DatabaseUnavailable,
)
from tallyman.registry.database import Database
from tallyman.registry.server.address import shareable
from tallyman.registry.server.embedded import Embedded
from tests.registry.conftest import NOTES, add_note, notes
from tests.world.home import Home


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


def test_a_project_may_use_the_server_of_another_and_starts_and_stops_it(
    made: Path, tmp_path: Path
) -> None:
    sales, board = Home(tmp_path / "sales"), Home(tmp_path / "board")
    for home, settings in ((sales, "name: sales"), (board, "database: {project: ../sales}")):
        home.path.mkdir()
        (home.path / "tallyman.yaml").write_text(f"{settings}\n")
    subprocess.run(["cp", "-a", str(made), str(sales.path)], check=True)

    board.ok("pools", "set", "wide", "--slots", "3")
    assert not Embedded(sales.path / ".tallyman").running
    assert not (board.path / ".tallyman" / "postgres").exists()
    assert sales.query("SELECT name FROM pools") == [("wide",)]
    sales.close()
    assert not Embedded(sales.path / ".tallyman").running

    third = tmp_path / "third"
    third.mkdir()
    (third / "tallyman.yaml").write_text("database: {project: ../board}\n")
    refused = Home(third).tallyman("ls")
    assert refused.code == 2
    assert "names a database itself" in refused.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="then all other tests are run by an ordinary user")
def test_an_ordinary_user_has_a_server_too_and_root_may_share_it(tmp_path: Path) -> None:
    code = """
import importlib.readers  # the library of this Python may be closed to that user
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
    with pytest.raises(DatabaseUnavailable, match="not empty and not a database"):
        Database(None, tmp_path).url()
    (tmp_path / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DatabaseUnavailable, match="PostgreSQL 12, which is not installed"):
        Database(None, tmp_path).url()


def test_a_server_that_cannot_start_says_why(state: Path) -> None:
    with (state / "postgres" / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = nonsense\n")
    with pytest.raises(DatabaseUnavailable, match=r"did not start: .*shared_buffers"):
        Database(None, state).url()
