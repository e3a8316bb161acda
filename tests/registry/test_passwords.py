"""The database's password stays its own: in errors, in settings, in commands."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import typer
from typer.testing import CliRunner

from tallyman.cli.operate import db
from tallyman.cli.terminal.options import close_all
from tallyman.errors import (
    DatabaseUnavailable,
    UsageError,
)
from tallyman.registry import migrate
from tallyman.registry.database import Database
from tallyman.registry.server.address import redacted, shareable
from tallyman.registry.server.embedded import Embedded
from tallyman.registry.status import psql, status
from tallyman.settings import Secret, read_settings
from tests.registry.conftest import NOTES, PASSWORD, add_note, shown


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


@pytest.fixture
def tallyman(home: Path, state: Path) -> Iterator[Callable[..., str]]:
    app = typer.Typer()
    app.add_typer(db.db, name="db")
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
    assert "stopped (started only for this command)" in tallyman("status")
    assert not Embedded(home / ".tallyman").running
    address = tallyman("url", "--owner").strip()
    with psycopg.connect(address) as other:
        assert other.execute(NOTES).fetchone() == (0,)
        told = tallyman("status")
    for line in ("state              running", "server             PostgreSQL 18", "runs"):
        assert line in told
    assert "other connections  1" in told


def test_migrating_tells_what_was_applied(tallyman: Callable[..., str], empty: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYMAN_DATABASE_URL", empty)
        assert tallyman("migrate").startswith("applied  0001 runs\n")
        assert "nothing to do" in tallyman("migrate")
        assert "up to date" in tallyman("status")


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
    dump = Embedded(home / ".tallyman").data.programs / "pg_dump"
    done = subprocess.run([str(dump), address], capture_output=True, text=True, check=True)
    assert "CREATE TABLE public.materializations" in done.stdout


def test_the_password_is_printed_on_demand_only(tallyman: Callable[..., str], guarded: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYMAN_DATABASE_URL", guarded)
        assert PASSWORD not in tallyman("url") + tallyman("status") + tallyman("status", "--json")
        assert PASSWORD not in tallyman("url", "--owner")
        assert quote(PASSWORD) in tallyman("url", "--owner", "--show-password")
        # The reader's password is not ours: the address has none.
        assert "//tallyman_reader@" in tallyman("url", "--show-password")
        assert quote(PASSWORD) not in tallyman("url", "--show-password")
