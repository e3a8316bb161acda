"""One project for all tests of seals: a run that failed and was resumed, one that used its results
again, both with everything a run can leave; and keys that came between the two."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

raw = tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, n int, kind string")
late = tm.source("late", "data/late.jsonl", "json", key="id", schema="id string, n int")


@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def good(raw):
    return raw.expect("positive", "n > 0", code="NEGATIVE").filter("kind <> 'z'", reason="not z")


@tm.asset(key="kind")
def totals(good):
    return good.groupBy("kind").agg(total="sum(n)")


@tm.asset(key="id")
def edited(good):
    return good.update({"n": "n + 1"}, where="kind = 'x'").output("exports/edited.csv")


@tm.asset(key="id", thresholds={"absolute": 0, "percentage": 0.0})
def strict(late):
    return late.expect("positive", "n > 0")
"""
RAW = """\
{"id": "a", "n": 1, "kind": "x"}
{"id": "b", "n": -2, "kind": "x"}
{"id": "c", "n": "three", "kind": "x"}
{"id": "d", "n": 4, "kind": "z"}
not json
{"id": "e", "n": 5, "kind": "y"}
"""


@dataclass
class SealedHome(Home):
    """A project whose runs are sealed."""

    def late(self, *numbers: int) -> SealedHome:
        return self.data("late.jsonl", *({"id": str(n), "n": n} for n in numbers))

    @contextmanager
    def forged(self, *statements: str) -> Iterator[None]:
        """The seals of the registry as a forger leaves them, for a while."""
        self.owner("CREATE TABLE kept AS SELECT * FROM seals")
        try:
            self.owner(*statements)
            yield
        finally:
            back = "INSERT INTO seals SELECT * FROM kept"
            self.owner("DELETE FROM seals", back, "DROP TABLE kept")


@pytest.fixture(scope="session")
def new_shop(session_homes: Homes) -> Callable[[], SealedHome]:
    def make() -> SealedHome:
        shop = session_homes.make(SealedHome, "shop").pipeline(PIPELINE).late(1, 2)
        (shop.path / "data" / "raw.jsonl").write_text(RAW)
        return shop

    return make


@pytest.fixture(scope="session")
def shop(new_shop: Callable[[], SealedHome]) -> SealedHome:
    """Seals 1 and 2 are of `first`, which failed and was resumed; 3 of `second`, the first that is
    signed, which made one asset anew; 4 of `third`, which found everything unchanged."""
    made = new_shop().late(1, -2)
    failed = made.tallyman("run", "--run-id", "first")
    assert failed.code == 3, str(failed)
    made.late(1, 2).ok("resume", "first")
    made.ok("keys", "init")
    made.late(1, 2, 3).ok("run", "--run-id", "second")
    made.ok("run", "--run-id", "third")
    return made


@contextmanager
def flipped(path: Path, at: int | None = None) -> Iterator[None]:
    """One bit of one byte, in the middle unless said, for a while; in place, so that a file with
    two names is changed under both. An empty file has a byte more."""
    size = path.stat().st_size
    with open(path, "r+b") as file:
        place = size // 2 if at is None else at
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]) if byte else b"!")
    try:
        yield
    finally:
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(byte)
            file.truncate(size)


@contextmanager
def written(path: Path, content: bytes | None) -> Iterator[None]:
    """Another content of a file, or none, for a while."""
    before = path.read_bytes() if path.exists() else None
    _put(path, content)
    try:
        yield
    finally:
        _put(path, before)


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        os.unlink(path)
    else:
        path.write_bytes(content)
