"""The tables: how they are made, what they refuse, and how they are found."""

import contextlib
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tallyman.errors import (
    DatabaseBehind,
    DatabaseNewer,
    UsageError,
)
from tallyman.registry import migrate
from tallyman.registry.database import Database
from tallyman.registry.status import status
from tests.registry.conftest import add_note, notes


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
    newest = migrate.newest(now)
    later = migrate.Migration(newest + 1, "later", "CREATE TABLE later (n integer)")
    monkeypatch.setattr(migrate, "known", lambda: [*now, later])
    with pytest.raises(DatabaseBehind, match=f"version {newest}; .* needs {newest + 1}"):
        add_note(database)
    assert migrate.version(empty) == newest
    assert migrate.apply(empty) == [later]
    assert migrate.apply(empty) == []
    assert notes(database) == 1
    database.close()


def test_a_migration_that_fails_leaves_the_version_before(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = migrate.known()
    newest = migrate.newest(now)
    broken = migrate.Migration(newest + 1, "broken", "CREATE TABLE half (n int); SELECT 1 / 0")
    monkeypatch.setattr(migrate, "known", lambda: [*now, broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.apply(empty)
    assert migrate.version(empty) == newest
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
    INSERT INTO runs (id, name, org, project, status, folder, actor, started_at)
    VALUES (%(run)s, %(run)s::text, 'default', 'p', 'success', 'f', 'me', now())
"""
MATERIALIZATION = """
    INSERT INTO materializations (org, project, asset_name, run_id, status)
    VALUES ('default', 'p', 'a', %(run)s, %(status)s)
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
        "(org, project, asset_name, partition)",
        "(run_id)",
        "(status)",
        "(inserted_at DESC)",
        "gin (upstream_assets)",
    ):
        assert asked in found
