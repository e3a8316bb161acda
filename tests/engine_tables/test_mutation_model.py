"""Random mutations leave the same rows as a plain dict by key, and are refused when it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tallyman.domain.version.table import Table
from tallyman.errors import KeyConflict, MutationRefused
from tests.engine_tables.tables import Shelf, delete, insert, update
from tests.world.scale import by_form

TABLE = Table.of("node", "k int, v int, up int", "k", {"up": "node.k"})
Rows = dict[int, tuple[int | None, int | None]]
Step = tuple[str, Any, Any]

SQL = {
    "v > 0": lambda k, v, up: v is not None and v > 0,
    "NOT v = 1": lambda k, v, up: v is not None and v != 1,
    "k < 2 OR up IS NULL": lambda k, v, up: k < 2 or up is None,
    "true": lambda k, v, up: True,
}


def _chain(random: Random) -> list[list[Step]]:
    """Mutations of up to two statements, of which about half can be done."""
    chosen = [random.choice(["insert", "update", "update", "delete"]) for _ in range(5)]
    return [[_random_step(random, kind) for _ in range(random.randint(1, 2))] for kind in chosen]


def _random_step(random: Random, kind: str) -> Step:
    if kind == "insert":
        return (
            "insert",
            [_random_row(random, ["k", "v", "up"]) for _ in range(random.randint(1, 2))],
            None,
        )
    what = _random_row(random, random.sample(["k", "v", "v", "up", "up"], random.randint(1, 2)))
    where = _random_row(random, random.sample(["k", "v", "v", "up"], random.randint(1, 2)))
    return kind, what, random.choice([where, where, *SQL])


def _random_row(random: Random, names: Sequence[str]) -> dict[str, int | None]:
    most = {"k": 5, "v": 2, "up": 3}
    return {
        name: None if name != "k" and random.random() < 0.4 else random.randint(0, most[name])
        for name in names
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


@settings(
    max_examples=by_form(15, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.integers(0, 2**32))
def test_random_mutations_do_what_a_dict_by_key_does(seed: int) -> None:
    # Drawn evenly: Hypothesis by itself prefers what is small and equal, and most is refused then.
    chain = _chain(Random(seed))
    note(f"{chain}")
    with TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder), TABLE)
        rows: Rows = {k: (k, 0 if k else None) for k in range(3)}
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
