"""Outside readers can only read; what somebody else did to their entries is found and put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.exc import ProgrammingError

import tallyman as tm
from tallyman.registry.database import Database
from tests.tables.conftest import PIPELINE, Tables, person
from tests.world.databases import Databases, owner_of

WRITES = (
    "INSERT INTO iceberg_tables VALUES ('tallyman', 'published', 'mine', 'x', NULL, 'TABLE')",
    "UPDATE iceberg_tables SET metadata_location = 'x'",
    "DELETE FROM iceberg_tables",
    "INSERT INTO iceberg_namespace_properties VALUES ('tallyman', 'mine', 'a', 'b')",
    "SELECT * FROM datasets",
    "SELECT * FROM audit_log",
    "CREATE TABLE mine (n integer)",
)


def reader(address: str) -> SqlCatalog:
    """Verbatim from docs/guides/versions.md."""
    return SqlCatalog(
        "tallyman",
        uri=address.replace("postgresql://", "postgresql+psycopg://"),
        init_catalog_tables="false",
    )


@pytest.fixture
def catalog(home: Tables, project: tm.Project) -> Iterator[SqlCatalog]:
    made = reader(home.ok("db", "url")["url"])
    yield made
    made.engine.dispose()


def only_reads(address: str) -> None:
    for text in WRITES:
        with (
            psycopg.connect(address) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(text.encode())


def test_the_printed_address_reads_the_catalog_and_can_do_nothing_else(
    home: Tables, project: tm.Project, catalog: SqlCatalog
) -> None:
    table = catalog.load_table("published.person")
    assert sorted(row["name"] for row in table.scan().to_arrow().to_pylist()) == ["Ann", "Bob"]
    assert catalog.list_tables("published") == [("published", "person")]
    with pytest.raises(ProgrammingError, match="permission denied"):
        table.append(table.scan().to_arrow())
    with pytest.raises(ProgrammingError, match="permission denied"):
        catalog.drop_table("published.person")
    only_reads(home.ok("db", "url")["url"])
    assert catalog.load_table("published.person").scan().to_arrow().num_rows == 2


def test_of_the_own_server_the_reader_is_printed_and_the_owner_on_request(
    tmp_path: Path,
) -> None:
    (tmp_path / "tallyman.yaml").write_text("name: own\n")
    home = Tables(tmp_path).pipeline(PIPELINE)
    try:
        assert home.mutate(person("Ann", 31)).code == 0
        address = home.ok("db", "url")["url"]
        assert address.startswith("postgresql://tallyman_reader@/tallyman?")
        catalog = reader(address)
        assert catalog.load_table("published.person").scan().to_arrow().num_rows == 1
        catalog.engine.dispose()
        only_reads(address)
        owner = home.ok("db", "url", "--owner")["url"]
        assert owner.startswith("postgresql://postgres@/")
        # A database that an older release made has no such role.
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute("ALTER ROLE tallyman_reader NOLOGIN")
        with psycopg.connect(home.ok("db", "url")["url"]) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("tallyman_reader",)
    finally:
        home.close()
        Database(None, tmp_path / ".tallyman").close()
        assert home.printed("db", "status").code == 0


def test_on_a_server_without_a_reader_nothing_is_printed_but_how_to_make_one(
    home: Tables, project: tm.Project
) -> None:
    owner = owner_of(project.database.url())
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("REVOKE SELECT ON iceberg_tables FROM tallyman_reader")
        reply = home.printed("db", "url")
        assert (reply.code, reply.stdout) == (2, "")
        assert "has no role that can only read the published catalog" in reply.stderr
        assert "CREATE ROLE reader LOGIN PASSWORD" in reply.stderr
        assert "--owner" in reply.stderr
        assert home.ok("db", "url", "--owner")["url"] == project.database.url()
        connection.execute("GRANT SELECT ON iceberg_tables TO tallyman_reader")
    assert "//tallyman_reader@" in home.printed("db", "url").stdout


# ---- entries that somebody changed ---------------------------------------------------------------


def vandal(home: Tables, text: str) -> None:
    home.owner(text)


DROP = "DELETE FROM iceberg_tables WHERE table_name = 'person'"
CHANGE = "UPDATE iceberg_tables SET metadata_location = '/tmp/forged.json' WHERE table_name = "
ADD = (
    "INSERT INTO iceberg_tables VALUES ('tallyman', 'published', 'forged', '/tmp/f', NULL, 'TABLE')"
)


def entries(home: Tables) -> list[tuple[object, ...]]:
    return home.query("SELECT table_name, metadata_location FROM iceberg_tables ORDER BY 1")


@pytest.mark.parametrize(
    ("done", "said"), [(DROP, "missing"), (f"{CHANGE} 'person'", "forged.json")]
)
def test_verify_and_doctor_find_a_foreign_entry_and_the_doctor_repairs_it(
    home: Tables, project: tm.Project, done: str, said: str
) -> None:
    before = entries(home)
    assert home.ok("verify", "dataset", "person")["outside"] == []
    vandal(home, done)
    reply = home.printed("verify", "dataset", "person")
    assert reply.code == 1
    assert "intact" in reply.stdout, "the files are as they were"
    assert "OUTSIDE   published.person" in reply.stdout
    assert said in reply.stdout
    assert "doctor --fix" in reply.stdout
    found = home.printed("doctor")
    assert found.code == 1
    assert f"FAIL outside   published.person: {'changed' if said != 'missing' else said}" in (
        found.stdout
    )
    assert entries(home) != before, "looking repairs nothing"
    fixed = home.printed("doctor", "--fix")
    assert "ok   outside   restored for outside readers: published.person" in fixed.stdout
    assert entries(home) == before
    assert home.printed("verify", "dataset", "person").code == 0
    [[event]] = home.query("SELECT resource FROM audit_log WHERE action = 'restored'")
    assert event == "person"


def test_the_doctor_removes_entries_of_no_dataset_and_restores_snapshots(
    home: Tables, project: tm.Project
) -> None:
    project.snapshot("person", "first_people")
    before = entries(home)
    vandal(home, ADD)
    vandal(home, "DELETE FROM iceberg_tables WHERE table_name = 'first_people'")
    assert home.printed("verify", "dataset", "person").code == 1
    found = home.printed("doctor").stdout
    assert "published.forged: unknown: no dataset or snapshot has this name" in found
    assert "published.first_people: missing" in found
    home.printed("doctor", "--fix")
    assert entries(home) == before
    assert "outside readers find every published version" in home.printed("doctor").stdout


def test_the_next_publication_puts_the_entry_right(home: Tables, project: tm.Project) -> None:
    project.snapshot("person", "first_people")
    before = dict(entries(home))
    vandal(home, DROP)
    vandal(home, f"{CHANGE} 'first_people'")
    assert home.mutate(person("Eve", 7)).code == 0
    after = dict(entries(home))
    assert after["first_people"] == before["first_people"]
    assert after["person"] not in (None, before["person"])


def test_exposing_what_is_exposed_restores_its_entry_and_says_so(
    home: Tables, project: tm.Project
) -> None:
    before = entries(home)
    vandal(home, DROP)
    commits = len(project.commits())
    reply = home.printed("expose", "person")
    assert reply.code == 0
    assert "restored for outside readers: published.person: missing" in reply.stderr
    assert entries(home) == before
    assert len(project.commits()) == commits
    assert home.printed("expose", "person").stderr == ""


def test_a_hidden_dataset_that_somebody_listed_is_hidden_again(
    home: Tables, project: tm.Project
) -> None:
    project.hide("person")
    vandal(home, ADD.replace("'forged'", "'person'"))
    assert home.printed("verify", "dataset", "person").code == 1
    assert home.printed("hide", "person").code == 0
    assert entries(home) == []


def test_databases_of_one_server_share_the_reader(
    new_home: Callable[..., Tables], databases: Databases
) -> None:
    one, other = new_home(), new_home()
    for home in (one, other):
        assert home.mutate(person("Ann", 31)).code == 0
        catalog = reader(home.ok("db", "url")["url"])
        assert catalog.load_table("published.person").scan().to_arrow().num_rows == 1
        catalog.engine.dispose()
