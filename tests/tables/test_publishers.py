"""Many publishers at once: exactly one winner per conflict, one line of commits, and no reader
ever sees half of one."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row

from tallyman.control.publish.commit import publish
from tallyman.control.publish.fragment import described
from tallyman.control.publish.mutate import dataset_of
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import Dataset, Fragment
from tallyman.domain.version.owner import Owner
from tallyman.domain.version.table import Table
from tallyman.engine.table.file import write_file
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import VersionConflict
from tallyman.registry.database import Database
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments
from tests.world.scale import FULL

PUBLISHERS, ROUNDS, READERS = 32, 200 if FULL else 20, 2
OWNER = Owner("default", "stand")
NAMES = [f"d{n}" for n in range(8)]
PAIRS = list(combinations(NAMES, 2))

# One statement is one moment: what our own readers and those of Iceberg are shown in it.
BOTH = """
    SELECT d.name, d.ordinal, v.metadata_location AS ours, t.metadata_location AS theirs
    FROM datasets d
    LEFT JOIN versions v ON v.id = d.current_version
    LEFT JOIN iceberg_tables t ON t.table_name = d.name AND t.table_namespace = 'published'
"""
HISTORY = "SELECT id, seq, parent FROM commits ORDER BY seq"
MOVED = """
    SELECT c.seq, d.name, v.ordinal, v.metadata_location
    FROM versions v JOIN commits c ON c.id = v.commit_id JOIN datasets d ON d.id = v.dataset_id
    ORDER BY c.seq
"""
MEMBERS = """
    SELECT d.name, v.ordinal, array_agg(vf.fragment_id) AS fragments
    FROM versions v JOIN datasets d ON d.id = v.dataset_id
    JOIN version_fragments vf ON vf.dataset_id = d.id
     AND vf.since <= v.ordinal AND (vf.until IS NULL OR vf.until > v.ordinal)
    GROUP BY d.name, v.ordinal
"""


@dataclass
class Stand:
    """Datasets that take turns between two states, each a fragment that was made once."""

    url: str
    folder: Path
    datasets: dict[str, Dataset] = field(default_factory=dict)
    states: dict[str, tuple[Fragment, Fragment]] = field(default_factory=dict)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.folder / "warehouse", OWNER)

    def database(self) -> Database:
        return Database(self.url, self.folder)

    def make(self, names: Sequence[str]) -> None:
        database = self.database()
        for name in names:
            table = Table.of(name, "n int", "n")
            wanted = dataset_of(table, OWNER)
            dataset = database.durably(lambda tx, wanted=wanted: Datasets(tx).ensure(wanted))
            self.datasets[name] = dataset
            self.states[name] = (self._state(dataset, 0), self._state(dataset, 1))
            for fragment in self.states[name]:
                database.durably(lambda tx, f=fragment: Fragments(tx).open(f, None))
                assert database.durably(lambda tx, f=fragment: Fragments(tx).prepare(f, None))
        asked = self.publication(names, dict.fromkeys(names, 0))
        database.durably(lambda tx: publish(tx, self.warehouse, asked))
        database.close()

    def _state(self, dataset: Dataset, n: int) -> Fragment:
        fragment = uuid4()
        place = self.warehouse.fragment(dataset.id, fragment)
        rows = pa.record_batch({"n": pa.array([n], pa.int32())})
        file = write_file(place, rows.schema, [rows])
        files = self.warehouse.describe([file], dataset.id)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        made = Fragment(id=fragment, dataset_id=dataset.id, files=files, digest=digest)
        return described(self.warehouse, dataset, made)

    def publication(self, names: Sequence[str], expected: Mapping[str, int]) -> Publication:
        """Each to its other state."""
        return Publication(
            key=uuid4(),
            kind="mutate",
            actor="stand",
            owner=OWNER,
            changes=tuple(
                Change(
                    dataset_id=self.datasets[name].id,
                    operation=Operation.MUTATE,
                    adds=(self.states[name][(expected[name] + 1) % 2],),
                    removes=frozenset({self.states[name][expected[name] % 2].id}),
                    expected=expected[name],
                )
                for name in names
            ),
        )


@pytest.fixture
def stand(empty_database: Callable[[], str], tmp_path: Path) -> Stand:
    return Stand(empty_database(), tmp_path)


# ---- publishers ----------------------------------------------------------------------------


@dataclass
class Publisher:
    """Reads the versions of its pair, waits until everybody has, and publishes both."""

    stand: Stand
    gate: threading.Barrier
    dice: random.Random

    def rounds(self) -> list[tuple[tuple[str, str], Mapping[str, int], Commit | VersionConflict]]:
        database = self.stand.database()
        found = []
        try:
            for _ in range(ROUNDS):
                pair = self.dice.choice(PAIRS)
                found.append((pair, *self._one(database, pair)))
        except BaseException:
            self.gate.abort()
            raise
        finally:
            database.close()
        return found

    def _one(
        self, database: Database, pair: tuple[str, str]
    ) -> tuple[Mapping[str, int], Commit | VersionConflict]:
        ids = {self.stand.datasets[name].id: name for name in pair}
        heads = database.durably(lambda tx: Datasets(tx).by_ids(ids))
        read = {ids[key]: dataset.ordinal for key, dataset in heads.items()}
        self.gate.wait(60)
        asked = self.stand.publication(pair, read)
        try:
            made = database.durably(lambda tx: publish(tx, self.stand.warehouse, asked))
            assert made is not None
            return read, made
        except VersionConflict as conflict:
            return read, conflict
        finally:
            self.gate.wait(60)


def watch(url: str, done: threading.Event, seen: set[tuple[tuple[object, ...], ...]]) -> None:
    """Every state that anybody could have been shown."""
    with psycopg.connect(url, autocommit=True) as connection:
        while not done.wait(0.003):
            seen.add(tuple(sorted(connection.execute(BOTH).fetchall())))


def test_of_publishers_in_each_others_way_one_wins_and_readers_never_see_half_of_it(
    stand: Stand,
) -> None:
    stand.make(NAMES)
    gate, done = threading.Barrier(PUBLISHERS), threading.Event()
    seen: set[tuple[tuple[object, ...], ...]] = set()
    publishers = [Publisher(stand, gate, random.Random(n)) for n in range(PUBLISHERS)]
    with ThreadPoolExecutor(PUBLISHERS + READERS) as pool:
        watching = [pool.submit(watch, stand.url, done, seen) for _ in range(READERS)]
        try:
            running = [pool.submit(publisher.rounds) for publisher in publishers]
            rounds = list(zip(*(one.result() for one in running), strict=True))
        finally:
            done.set()
        for one in watching:
            one.result()
    wins = [check_round(outcomes) for outcomes in rounds]
    states = check_history(stand, [commit for won in wins for commit in won])
    assert len(seen) > ROUNDS, "nobody looked"
    assert seen <= states, "a state that no commit has made"


def check_round(
    outcomes: Sequence[tuple[tuple[str, str], Mapping[str, int], Commit | VersionConflict]],
) -> list[Commit]:
    """Who lost, lost against somebody who won; and no two winners wanted the same dataset."""
    won = [(pair, end) for pair, _, end in outcomes if isinstance(end, Commit)]
    moved = Counter(name for pair, _ in won for name in pair)
    assert won
    assert set(moved.values()) == {1}
    for pair, read, end in outcomes:
        if isinstance(end, Commit):
            assert {m.dataset: m.ordinal for m in end.moves} == {n: v + 1 for n, v in read.items()}
        else:
            assert end.table_key in pair
            assert moved[end.table_key] == 1
            assert (end.expected, end.actual) == (read[end.table_key], read[end.table_key] + 1)
    return [commit for _, commit in won]


def check_history(stand: Stand, wins: Sequence[Commit]) -> set[tuple[tuple[object, ...], ...]]:
    """One line of exactly the commits that were won; the states it went through."""
    with psycopg.connect(stand.url, row_factory=dict_row) as connection:
        history = connection.execute(HISTORY).fetchall()
        moved = connection.execute(MOVED).fetchall()
        members = connection.execute(MEMBERS).fetchall()
        head = connection.execute("SELECT commit_id FROM heads").fetchall()
        now = {row["name"]: row["ordinal"] for row in connection.execute(BOTH).fetchall()}
    ids = [row["id"] for row in history]
    assert [row["parent"] for row in history] == [None, *ids[:-1]]
    assert head == [{"commit_id": ids[-1]}]
    assert set(ids[1:]) == {commit.id for commit in wins}
    growth = Counter(move.dataset for commit in wins for move in commit.moves)
    assert now == {name: growth[name] + 1 for name in NAMES}
    for row in members:
        assert row["fragments"] == [stand.states[row["name"]][row["ordinal"] % 2].id]
    assert len(members) == sum(now.values())
    return set(states_of(history, moved))


def states_of(
    history: Sequence[Mapping[str, object]], moved: Sequence[Mapping[str, object]]
) -> Iterator[tuple[tuple[object, ...], ...]]:
    by_seq: dict[object, list[Mapping[str, object]]] = {}
    for row in moved:
        by_seq.setdefault(row["seq"], []).append(row)
    shown: dict[object, tuple[object, ...]] = {}
    for commit in history:
        for row in by_seq[commit["seq"]]:
            place = row["metadata_location"]
            shown[row["name"]] = (row["name"], row["ordinal"], place, place)
        yield tuple(sorted(shown.values()))


# ---- the key -------------------------------------------------------------------------------


def test_a_publication_that_is_repeated_is_the_same_commit(stand: Stand) -> None:
    stand.make(["d0", "d1"])
    database = stand.database()
    asked = stand.publication(["d0", "d1"], {"d0": 1, "d1": 1})
    first = database.durably(lambda tx: publish(tx, stand.warehouse, asked))
    other = stand.publication(["d0"], {"d0": 2})
    database.durably(lambda tx: publish(tx, stand.warehouse, other))
    files = sorted(stand.folder.rglob("*.json"))
    again = database.durably(lambda tx: publish(tx, stand.warehouse, asked))
    assert again == first
    heads = database.durably(lambda tx: Datasets(tx).list(OWNER))
    assert {d.name: d.ordinal for d in heads} == {"d0": 3, "d1": 2}
    assert sorted(stand.folder.rglob("*.json")) == files
    database.close()


def test_the_same_publication_from_many_sides_at_once_is_one_commit(stand: Stand) -> None:
    stand.make(["d0", "d1"])
    asked = stand.publication(["d0", "d1"], {"d0": 1, "d1": 1})

    def once(_: int) -> Commit | None:
        database = stand.database()
        try:
            return database.durably(lambda tx: publish(tx, stand.warehouse, asked))
        finally:
            database.close()

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(once, range(8)))
    assert made[0] is not None
    assert made == [made[0]] * 8


def test_a_dataset_that_was_only_read_must_not_have_moved_either(stand: Stand) -> None:
    stand.make(["d0", "d1"])
    database = stand.database()
    read = {stand.datasets["d1"].id: 1}
    asked = replace(stand.publication(["d0"], {"d0": 1}), reads=read)
    moved = stand.publication(["d1"], {"d1": 1})
    database.durably(lambda tx: publish(tx, stand.warehouse, moved))
    with pytest.raises(VersionConflict) as conflict:
        database.durably(lambda tx: publish(tx, stand.warehouse, asked))
    facts = conflict.value
    assert (facts.table_key, facts.expected, facts.actual) == ("d1", 1, 2)
    database.close()
