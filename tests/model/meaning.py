"""What each asset of the project means, in plain Python: rows, where they come from, rejections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

Row = tuple[object, ...]
Rows = Mapping[Row, frozenset[str]]
"""Each row with the keys of the source records it comes from. No asset has a row twice."""
NOTHING: Rows = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a source; `n` is a text where it cannot be read as a number."""

    id: str
    day: str
    kind: str
    n: int | str

    def line(self) -> dict[str, object]:
        return {"id": self.id, "day": self.day, "kind": self.kind, "n": self.n}

    @property
    def row(self) -> Row:
        return (self.id, self.day, self.kind, self.n)

    @property
    def positive(self) -> bool:
        return isinstance(self.n, int) and self.n > 0


@dataclass(frozen=True, slots=True)
class Made:
    """What an asset makes of its inputs: rows by dataset, and the rejected records."""

    rows: Mapping[str, Rows]
    rejected: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """What an asset reads, and what it makes of that."""

    name: str
    make: Callable[..., Made]
    source: str | None = None
    reads: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    by_day: bool = False
    appends: bool = False
    combines: bool = False
    """A replay evaluates all records again and replaces the rows."""
    outputs: tuple[str, ...] = ()
    """Datasets published with it, with its own."""


def _pick(records: Iterable[Record], name: str, keep: Callable[[Record], bool]) -> Made:
    """Rows of the records to keep; who is not positive is rejected."""
    listed = list(records)
    rows = {r.row: frozenset({r.id}) for r in listed if r.positive and keep(r)}
    return Made({name: rows}, frozenset(r.id for r in listed if not r.positive))


def good(records: Iterable[Record], *, day: str, limit: int) -> Made:
    """A record of another day is an error, because no other run would read it."""
    mine, others = _of_day(records, day)
    made = _pick(mine, "good", lambda r: int(r.n) < limit)
    return Made(made.rows, made.rejected | others)


def plog(records: Iterable[Record], *, day: str, limit: int) -> Made:
    mine, others = _of_day(records, day)
    made = _pick(mine, "plog", lambda _: True)
    return Made(made.rows, made.rejected | others)


def _of_day(records: Iterable[Record], day: str) -> tuple[list[Record], frozenset[str]]:
    listed = list(records)
    mine = [r for r in listed if r.day == day]
    return mine, frozenset(r.id for r in listed if r.day != day)


def parts(records: Iterable[Record], *, day: None, limit: int) -> Made:
    made = _pick(records, "parts", lambda r: int(r.n) < 50)
    rows = made.rows["parts"]
    small = {row: ids for row, ids in rows.items() if _number(row) < 10}
    large = {row: ids for row, ids in rows.items() if _number(row) >= 10}
    kept = frozenset(str(row[0]) for row in rows)
    rejected = frozenset(r.id for r in records) - kept
    listed = {(key,): frozenset({key}) for key in rejected}
    return Made({"parts": rows, "small": small, "large": large, "parts_rejected": listed}, rejected)


def by_kind(records: Iterable[Record], *, day: None, limit: int) -> Made:
    made = _pick(records, "by_kind", lambda _: True)
    return Made({"by_kind": sums(made.rows["by_kind"], 2)}, made.rejected)


def sums(rows: Rows, column: int) -> Rows:
    """Count and sum of `n` by a column."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return {
        (value, len(group), sum(map(_number, group))): frozenset().union(*(rows[r] for r in group))
        for value, group in groups.items()
    }


def _number(row: Row) -> int:
    assert isinstance(row[3], int)
    return row[3]


def _sums(name: str, column: int) -> Callable[..., Made]:
    return lambda rows, **_: Made({name: sums(rows, column)})


def small_sums(rows: Rows, **_: object) -> Made:
    """It takes the output `small`, which is read as those rows of `parts`."""
    small = {row: ids for row, ids in rows.items() if _number(row) < 10}
    return Made({"small_sums": sums(small, 2)})


def labelled(rows: Rows, kinds: Rows, **_: object) -> Made:
    labels = {row[0]: row[1] for row in kinds}
    return Made({"labelled": {(r[0], r[3], labels.get(r[2])): ids for r, ids in rows.items()}})


ASSETS = {
    asset.name: asset
    for asset in (
        Asset(name="good", make=good, source="raw", by_day=True),
        Asset(name="per_day", make=_sums("per_day", 1), reads=("good",)),
        Asset(name="day_sums", make=_sums("day_sums", 1), reads=("good",), by_day=True),
        Asset(name="labelled", make=labelled, reads=("good",), tables=("kinds",)),
        Asset(name="plog", make=plog, source="raw", by_day=True, appends=True),
        Asset(name="plog_sums", make=_sums("plog_sums", 1), reads=("plog",)),
        Asset(
            name="parts",
            make=parts,
            source="items",
            outputs=("small", "large", "parts_rejected"),
        ),
        Asset(name="small_sums", make=small_sums, reads=("parts",)),
        Asset(name="by_kind", make=by_kind, source="items", combines=True),
    )
}
"""In the order they run."""
BOARD = Asset(name="board_sums", make=_sums("board_sums", 2), reads=("good",))
"""The asset of the second pipeline, which reads a dataset of the first."""
PRODUCER = {name: a.name for a in ASSETS.values() for name in (a.name, *a.outputs)}
