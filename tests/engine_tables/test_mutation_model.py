"""Random mutations leave the same rows as a plain dict by key, and are refused when it is."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyman.domain.table import Table
from tallyman.errors import KeyConflict, MutationRefused
from tests.engine_tables.tables import Shelf, delete, insert, update

TABLE = Table.of("node", "k int, v int, up int", "k", {"up": "node.k"})
Rows = dict[int, tuple[int | None, int | None]]

keys = st.integers(0, 7)
values = st.none() | st.integers(0, 2)
ups = st.none() | st.integers(0, 3)
columns = st.sampled_from(["k", "v", "v", "up", "up"]).flatmap(
    lambda name: st.fixed_dictionaries({name: {"k": keys, "v": values, "up": ups}[name]})
)
several = st.builds(lambda one, other: one | other, columns, columns)
conditions = several | st.sampled_from(["v > 0", "NOT v = 1", "k < 2 OR up IS NULL", "true"])
rows = st.fixed_dictionaries({"k": keys, "v": values, "up": ups})
inserts = st.tuples(st.just("insert"), st.lists(rows, min_size=1, max_size=2), st.none())
updates = st.tuples(st.just("update"), several, conditions)
deletes = st.tuples(st.just("delete"), st.none(), several)
mutations = st.sampled_from(["insert", "update", "update", "both", "delete"]).flatmap(
    lambda kind: st.lists(
        {"insert": inserts, "update": updates, "both": inserts | updates, "delete": deletes}[kind],
        min_size=1,
        max_size=2,
    )
)

SQL = {
    "v > 0": lambda k, v, up: v is not None and v > 0,
    "NOT v = 1": lambda k, v, up: v is not None and v != 1,
    "k < 2 OR up IS NULL": lambda k, v, up: k < 2 or up is None,
    "true": lambda k, v, up: True,
}


class Refused(Exception):
    pass


def _chosen(rows: Rows, where: Any) -> list[int]:
    if isinstance(where, str):
        return [k for k, (v, up) in rows.items() if SQL[where](k, v, up)]
    return [k for k, (v, up) in rows.items() if where.items() <= {"k": k, "v": v, "up": up}.items()]


def _checked(rows: Rows) -> Rows:
    if any(up is not None and up not in rows for _, up in rows.values()):
        raise Refused
    return rows


def _step(rows: Rows, kind: str, what: Any, where: Any) -> Rows:
    if kind == "insert":
        added = {row["k"]: (row["v"], row["up"]) for row in what}
        if len(added) < len(what) or added.keys() & rows.keys():
            raise Refused
        return _checked(rows | added)
    chosen = _chosen(rows, where)
    kept = {k: row for k, row in rows.items() if k not in chosen}
    if kind == "update":
        for k in chosen:
            new = {"k": k, "v": rows[k][0], "up": rows[k][1], **what}
            if new["k"] in kept:
                raise Refused
            kept[new["k"]] = (new["v"], new["up"])
    return _checked(kept)


def _statement(kind: str, what: Any, where: Any) -> Mapping[str, object]:
    if kind == "insert":
        return insert("node", *what)
    return update("node", what, where) if kind == "update" else delete("node", where)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(mutations, min_size=3, max_size=6))
def test_random_mutations_do_what_a_dict_by_key_does(chain: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder), TABLE)
        rows: Rows = {k: (k % 3, None) for k in range(3)}
        for k, (v, up) in rows.items():  # each in a fragment of its own
            shelf.mutate(insert("node", {"k": k, "v": v, "up": up}))
        for mutation in chain:
            before, files = rows, len(shelf.folders)
            try:
                for step in mutation:
                    rows = _step(rows, *step)
                is_refused = False
            except Refused:
                rows, is_refused = before, True
            try:
                changed = shelf.mutate(*(_statement(*step) for step in mutation))
            except (MutationRefused, KeyConflict):
                assert is_refused
                assert len(shelf.folders) == files
            else:
                assert not is_refused
                assert changed or rows == before
            found = [(row["k"], row["v"], row["up"]) for row in shelf.rows("node")]
            assert sorted(found, key=repr) == sorted(
                ((k, v, up) for k, (v, up) in rows.items()), key=repr
            )
