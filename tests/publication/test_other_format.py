"""A project or a database of another format is named, refused and left as it is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.publication.conftest import ThreeHome
from tests.world.home import Home

COMMANDS = (
    ["run"],
    ["ls"],
    ["runs"],
    ["cleanup", "--confirm"],
    ["db", "migrate"],
    ["keys", "init"],
)
OTHERS = {
    "none": (None, "an earlier Tallyman, which wrote no .tallyman/format;"),
    "next": ('{"format": 2, "made_by": "7.0"}', "Tallyman 7.0 in format 2;"),
    "damaged": ("1", "another program:"),
}


def everything(home: Home) -> dict[str, tuple[int, str]]:
    """Each file with its time and its content, and each table with its rows."""
    found = {}
    for folder, _, names in os.walk(home.path):
        for name in names:
            place = Path(folder, name)
            content = hashlib.sha256(place.read_bytes()).hexdigest()
            found[str(place.relative_to(home.path))] = (place.stat().st_mtime_ns, content)
    tables = home.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    for (table,) in tables:
        rows = home.query(f"SELECT t::text FROM {table} t ORDER BY 1")
        found[f"table {table}"] = (len(rows), str(rows))
    return found


def refusals(home: Home) -> set[str]:
    found = set()
    for words in COMMANDS:
        reply = home.tallyman(*words)
        assert (reply.code, reply.json["error"]["code"]) == (2, "other_format"), str(reply)
        assert "Nothing of it was changed or deleted" in reply.json["error"]["hint"]
        found.add(reply.json["error"]["message"])
    return found


@pytest.fixture(scope="module")
def home(new_home: Callable[[], ThreeHome]) -> ThreeHome:
    made = new_home().numbers(1, 2)
    made.ok("run", "--run-id", "first")
    assert made.query("SELECT count(*) FROM runs") == [(1,)]  # the reader stays connected
    return made


def test_a_project_of_another_format_is_refused_and_loses_nothing(
    home: ThreeHome, empty_database: Callable[[], str]
) -> None:
    state = home.path / ".tallyman"
    ours = json.loads((state / "format").read_text())
    assert ours == {"format": 1, "made_by": home.printed("--version").stdout.split()[1]}
    for content, words in OTHERS.values():
        (state / "format").unlink(missing_ok=True)
        if content is not None:
            (state / "format").write_text(content)
        before = everything(home)
        assert {path.split("/")[0] for path in before} >= {"runs", "warehouse", ".tallyman"}
        [message] = refusals(home)
        assert message.startswith(f".tallyman was made by {words}")
        assert message.endswith("this program reads format 1 only.")
        assert everything(home) == before

    # With a new folder and a new database the assets are run again, next to what was there.
    before = everything(home)
    state.rename(home.path / "earlier")
    new = {"TALLYMAN_DATABASE_URL": empty_database()}
    assert home.ok("run", **new)["status"] == "success"
    home.ok("cleanup", "--older-than", "0s", "--confirm", **new)
    now = everything(home)
    for name, content in before.items():
        assert now[name.replace(".tallyman/", "earlier/")] == content


def test_a_new_folder_has_its_format_from_its_first_file_on(
    new_home: Callable[[], ThreeHome],
) -> None:
    home = new_home()
    home.ok("keys", "init")
    assert sorted(os.listdir(home.path / ".tallyman")) == ["format", "keys"]
    assert home.ok("runs") == []


@pytest.mark.parametrize(
    ("tables", "made_by"),
    [
        (
            "UPDATE schema_migrations SET name = 'history' WHERE version = 1",
            "another Tallyman: its migration 1 is 'history', here it is 'runs'",
        ),
        ("ALTER TABLE schema_migrations DROP COLUMN name", "another program"),
    ],
)
def test_a_database_with_other_migrations_is_refused_and_stays_as_it_is(
    new_home: Callable[[], ThreeHome], tables: str, made_by: str
) -> None:
    home = new_home().numbers(1)
    everything(home)
    home.owner(tables)
    before = everything(home)
    [message] = refusals_of_database(home)
    assert message.startswith("the database '")
    assert message.endswith(f"' was made by {made_by}.")
    assert everything(home) == before


def refusals_of_database(home: Home) -> set[str]:
    status = home.tallyman("db", "status")
    assert (status.code, status.json["error"]["code"]) == (2, "other_format")
    found = {status.json["error"]["message"]}
    for words in (["ls"], ["runs"], ["db", "migrate"]):
        reply = home.tallyman(*words)
        assert (reply.code, reply.json["error"]["code"]) == (2, "other_format"), str(reply)
        found.add(reply.json["error"]["message"])
    return found
