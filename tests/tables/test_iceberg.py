"""Published tables as strangers see them: a stock PyIceberg client and DuckDB, before, during and
after publications. Nothing of our code reads here."""

from __future__ import annotations

import base64
import math
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StaticTable, Table

import tallyman as tm
from tests.tables.conftest import Tables, delete, insert, knows, person, update

COMMITS = 25
READERS = 2


@pytest.fixture
def catalog(home: Tables, project: tm.Project) -> Iterator[SqlCatalog]:
    made = stock(home, project)
    yield made
    made.engine.dispose()


def stock(home: Tables, project: tm.Project) -> SqlCatalog:
    """As its documentation says; nothing but the address of the database is known."""
    address = project.database.url().replace("postgresql://", "postgresql+psycopg://")
    return SqlCatalog("tallyman", uri=address, warehouse=f"file://{home.warehouse}")


def people(table: Table | StaticTable) -> dict[str, int | None]:
    rows = table.scan().to_arrow().to_pylist()
    found = {row["name"]: row["age"] for row in rows}
    assert len(found) == len(rows)
    return found


def by_duckdb(table: Table | StaticTable) -> list[tuple[Any, ...]]:
    """The files as they are planned, and nothing else of Iceberg."""
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT * FROM read_parquet($files) ORDER BY ALL", {"files": files}
        )
        return found.fetchall()


def test_a_stock_client_sees_each_publication_and_what_is_in_it(
    project: tm.Project, catalog: SqlCatalog
) -> None:
    assert catalog.list_namespaces() == [("published",)]
    assert catalog.list_tables("published") == [("published", "person")]
    before = catalog.load_table("published.person")
    assert people(before) == {"Ann": 31, "Bob": 42}
    project.mutate(
        [person("Eve", 7), knows("Eve", "Ann"), update("person", "name = 'Bob'", age=43)]
    )
    assert people(before) == {"Ann": 31, "Bob": 42}, "a reader that has begun sees its version"
    after = catalog.load_table("published.person")
    assert people(after) == {"Ann": 31, "Bob": 43, "Eve": 7}
    assert by_duckdb(after) == [("Ann", 31), ("Bob", 43), ("Eve", 7)]
    assert by_duckdb(before) == [("Ann", 31), ("Bob", 42)]
    assert people(before.refresh()) == people(after)
    assert sorted(catalog.list_tables("published")) == [
        ("published", "knows"),
        ("published", "person"),
    ]
    found = after.scan(row_filter="age > 40", selected_fields=("name",)).to_arrow()
    assert found.to_pylist() == [{"name": "Bob"}]
    assert after.scan(row_filter="age > 1000").to_arrow().num_rows == 0


def test_while_versions_are_published_every_reader_sees_one_of_them(
    home: Tables, project: tm.Project
) -> None:
    """In version n everybody is n years old, and there are n + 1 people."""
    project.mutate([update("person", "true", age=2), person("P2", 2)])
    done, seen, failed = threading.Event(), [[0] for _ in range(READERS)], list[BaseException]()

    def read(mine: list[int]) -> None:
        catalog = stock(home, project)
        try:
            while not done.is_set():
                table = catalog.load_table("published.person")
                for ages in (list(people(table).values()), [age for _, age in by_duckdb(table)]):
                    assert set(ages) == {len(ages) - 1}, "a mixture of two versions"
                    assert int(table.current_snapshot().summary["tallyman.version"]) == ages[0]
                    assert ages[0] >= mine[-1], "time went backwards"
                    mine.append(ages[0])
        except BaseException as error:
            failed.append(error)
        finally:
            catalog.engine.dispose()

    readers = [threading.Thread(target=read, args=[mine]) for mine in seen]
    for reader in readers:
        reader.start()
    try:
        for n in range(3, COMMITS + 3):
            project.mutate([update("person", "true", age=n), person(f"P{n}", n)])
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert failed == []
    assert len({version for mine in seen for version in mine}) > COMMITS / 5
    assert project.heads()["person"] == COMMITS + 2


def test_every_version_can_be_read_at_its_address(home: Tables, project: tm.Project) -> None:
    project.mutate([person("Eve", 7)])
    project.mutate([delete("person", "name = 'Ann'")])
    project.rollback("person", to=1)
    found = {
        row["version"]: people(StaticTable.from_metadata(row["metadata_location"]))
        for row in home.ok("versions", "person")
    }
    first = {"Ann": 31, "Bob": 42}
    assert found == {
        1: first,
        2: first | {"Eve": 7},
        3: {"Bob": 42, "Eve": 7},
        4: first,
    }


def test_what_is_renamed_hidden_or_removed_is_so_for_strangers_too(
    project: tm.Project, catalog: SqlCatalog
) -> None:
    first = str(project.commits()[0].id)
    project.mutate([person("Eve", 7), knows("Eve", "Ann")])
    project.rename("person", "people")
    names = {name for _, name in catalog.list_tables("published")}
    assert names == {"people", "knows"}
    assert people(catalog.load_table("published.people")) == {"Ann": 31, "Bob": 42, "Eve": 7}
    project.mutate([person("Fay", 8)])
    assert "Fay" in people(catalog.load_table("published.people"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table("published.person")
    project.hide("people")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("published.people")
    project.mutate([person("Gus", 9)])
    with pytest.raises(NoSuchTableError):
        catalog.load_table("published.people")
    project.expose("people")
    assert "Gus" in people(catalog.load_table("published.people"))
    project.rollback(commit=first)
    assert [name for _, name in catalog.list_tables("published")] == ["people"]
    assert people(catalog.load_table("published.people")) == {"Ann": 31, "Bob": 42}
    project.mutate([knows("Ann", "Bob")])
    assert by_duckdb(catalog.load_table("published.knows")) == [("Ann", "Bob")]


def test_a_snapshot_is_a_table_that_never_moves(project: tm.Project, catalog: SqlCatalog) -> None:
    project.snapshot("person", "people_then")
    project.mutate([person("Eve", 7)])
    project.snapshot("person", "people_later")
    project.rollback("person", to=1)
    project.mutate([delete("person", "true")])
    project.hide("person")
    project.cleanup(older_than_s=0, keep_versions=1, confirm=True)
    first = {"Ann": 31, "Bob": 42}
    assert people(catalog.load_table("published.people_then")) == first
    assert people(catalog.load_table("published.people_later")) == first | {"Eve": 7}


def test_a_table_without_rows_is_still_a_table(project: tm.Project, catalog: SqlCatalog) -> None:
    project.mutate([delete("person", "true")])
    empty = catalog.load_table("published.person")
    assert empty.scan().to_arrow().num_rows == 0
    assert empty.schema().column_names == ["name", "age"]
    project.mutate([person("Eve", 7)])
    assert people(catalog.load_table("published.person")) == {"Eve": 7}


# ---- types ---------------------------------------------------------------------------------

KINDS = {
    "s": "string",
    "b": "boolean",
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "f": "float",
    "d": "double",
    "d4": "decimal(4,2)",
    "d18": "decimal(18,0)",
    "d38": "decimal(38,20)",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "raw": "binary",
}
LARGEST = {
    "s": "Ω \U0001f600\t\n'\" \x00 end",
    "b": True,
    "i8": 127,
    "i16": 32767,
    "i32": 2**31 - 1,
    "i64": 2**63 - 1,
    "f": 0.5,
    "d": 1.7976931348623157e308,
    "d4": Decimal("99.99"),
    "d18": Decimal(10**18 - 1),
    "d38": Decimal("999999999999999999.99999999999999999999"),
    "day": date(9999, 12, 31),
    "at": datetime(2026, 11, 15, 23, 59, 59, 999999, tzinfo=UTC),
    "local": datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    "raw": bytes(range(256)),
}
SMALLEST = {
    "s": "",
    "b": False,
    "i8": -128,
    "i16": -32768,
    "i32": -(2**31),
    "i64": -(2**63),
    "f": -math.inf,
    "d": 5e-324,
    "d4": Decimal("-99.99"),
    "d18": Decimal(-(10**18) + 1),
    "d38": Decimal("-0.00000000000000000001"),
    "day": date(1, 1, 1),
    "at": datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "local": datetime(1900, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
    "raw": b"",
}
NOTHING = dict.fromkeys(KINDS)


def given(row: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: decimals and times as text, bytes in base64."""
    plain = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif isinstance(value, Decimal | date):
            value = str(value)
        plain[name] = value
    return plain


def test_values_of_every_type_are_the_same_on_the_other_side(
    new_home: Callable[..., Tables], tmp_path: Path
) -> None:
    schema = ", ".join(f"{name} {kind}" for name, kind in {"k": "int", **KINDS}.items())
    home = new_home(
        f'import tallyman as tm\n\nkinds = tm.table("kinds", schema="{schema}", key="k")\n'
    )
    wanted = [{"k": n, **row} for n, row in enumerate((LARGEST, SMALLEST, NOTHING))]
    with home.open() as project:
        project.mutate([insert("kinds", *(given(row) for row in wanted))])
        # Rewritten through memory once: the values survive that, too.
        project.mutate([insert("kinds", {"k": 9}), update("kinds", "k = 2", s=None)])
        project.mutate([update("kinds", "k = 2", s="moved")])
        project.mutate([update("kinds", "k = 2", s=None)])
        catalog = stock(home, project)
        table = catalog.load_table("published.kinds")
        found = table.scan().to_arrow().sort_by("k")
        plain = by_duckdb(table)
        catalog.engine.dispose()
    rows = found.to_pylist()
    assert rows[:3] == wanted
    assert rows[3] == {"k": 9, **NOTHING}
    assert pa.types.is_decimal(found.schema.field("d38").type)
    assert [type(v) for v in rows[0].values()] == [type(v) for v in wanted[0].values()]
    # DuckDB has the instants in the time zone of the machine; they are the same instants.
    assert [list(row) for row in plain[:3]] == [list(row.values()) for row in wanted]
