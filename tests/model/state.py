"""What readers must see: versions as frozen values, and how each verb moves them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.model.meaning import ASSETS, BOARD, PRODUCER, Asset, Made, Record, Rows

EVERY = {**ASSETS, BOARD.name: BOARD}
Target = tuple[str, str | None]
"""An asset, and its day if it has days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The rows of one partition in a version, and the result they are of."""

    rows: Rows
    result: int
    replays: frozenset[str] = frozenset()
    """The replays that added rows to it."""


Content = Mapping[str | None, Piece]
"""A version: its pieces by day; a dataset without days has one piece."""


def rows_of(content: Content) -> Rows:
    return {row: ids for piece in content.values() for row, ids in piece.rows.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The last success of a target: it is reused while definition and inputs are the same."""

    number: int
    target: Target
    definition: object
    inputs: tuple[object, ...]
    pieces: Mapping[str, Piece]
    run: str
    rejected: frozenset[str]
    corrections: Mapping[str, Record] = field(default_factory=dict)
    """What replays of the whole asset put in the place of records."""
    replays: list[Replayed] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A replay of some rejections of a result, and whether each passed. Without rows there is
    nothing that a rollback could take back."""

    run: str
    passed: Mapping[str, bool]
    rows: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit: the versions that were current after it, and the pipeline version."""

    id: str
    heads: Mapping[str, int]
    active: int | None


class NotReady(Exception):
    """An input has no valid result: the run is refused, or publishes nothing."""


@dataclass
class World:
    """Everything a person has done so far, and what it means."""

    files: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    limit: int = 50
    current: dict[str, Content] = field(default_factory=dict)
    results: dict[Target, Result] = field(default_factory=dict)
    invalid: set[Target] = field(default_factory=set)
    numbered: dict[int, Result] = field(default_factory=dict)
    discarded: set[tuple[str, Target, str]] = field(default_factory=set)
    """Run, target and key of rejections that were given up."""
    seen: dict[tuple[str, int], Content] = field(default_factory=dict)
    """The content of each version that was not purged."""
    heads: dict[str, int] = field(default_factory=dict)
    removed: bool = False
    """True once a version was removed: what was made from it can no longer be followed."""
    restored: dict[tuple[str, int], int] = field(default_factory=dict)
    """The version that a version is again, by a rollback."""
    commits: list[Committed] = field(default_factory=list)
    snapshots: dict[str, tuple[str, int]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """New names of datasets that were renamed."""
    active: int | None = None
    """The pipeline version that is active, by its limit."""
    rolled_back: set[int] = field(default_factory=set)
    hashes: dict[int, str] = field(default_factory=dict)

    def shown(self, dataset: str) -> str:
        return self.names.get(dataset, dataset)

    # ---- sources and definitions ----------------------------------------------------------

    def records(self, source: str, day: str | None) -> dict[str, tuple[Record, ...]]:
        folder = f"{source}/{day}/" if source == "raw" else f"{source}/"
        return {name: lines for name, lines in self.files.items() if name.startswith(folder)}

    def definition(self, asset: Asset, limit: int | None = None) -> object:
        return (limit or self.limit) if asset.name == "good" else None

    def activated(self, limit: int) -> None:
        self.active = limit
        self.rolled_back.discard(limit)

    # ---- runs -----------------------------------------------------------------------------

    def run(
        self, run: str, targets: Sequence[Target], *, force: Iterable[str] = (), limit: int = 0
    ) -> dict[Target, int]:
        """Run the targets and publish them all. Return the records that each of them reads."""
        limit = limit or self.limit
        forced, after, results = set(force), dict(self.current), dict(self.results)
        invalid, read = set(self.invalid), {}
        for target in targets:
            asset, day = EVERY[target[0]], target[1]
            inputs = self._inputs(asset, day, after, invalid)
            last = results.get(target)
            read[target] = _records_in(asset, inputs)
            unchanged = last is not None and target[0] not in forced and target not in invalid
            same = last is not None and (last.definition, last.inputs) == (
                self.definition(asset, limit),
                inputs,
            )
            if not (unchanged and same):
                last = self._made(asset, day, inputs, run, limit)
                results[target] = last
            assert last is not None
            on_purpose = target[0] in forced or target in invalid
            invalid.discard(target)
            for name, piece in last.pieces.items():
                there = after.get(name, {})
                after[name] = {**there, day: _joined(asset, there.get(day), piece, on_purpose)}
        self.current, self.results, self.invalid = after, results, invalid
        if any(name in ASSETS for name, _ in targets) or not targets:
            self.activated(limit)
        return read

    def _inputs(
        self, asset: Asset, day: str | None, after: Mapping[str, Content], invalid: set[Target]
    ) -> tuple[object, ...]:
        if asset.source:
            return (self.records(asset.source, day),)
        found = []
        for name in (*asset.reads, *asset.tables):
            producer = PRODUCER.get(name, name)
            there = after.get(name, {})
            days = (day,) if asset.by_day else tuple(there)
            lacking = [p for p in days if p not in there]
            stale = [t for t in invalid if t[0] == producer and day in (None, t[1])]
            if not there or lacking or stale:
                raise NotReady(asset.name)
            found.append(rows_of({p: there[p] for p in days}))
        return tuple(found)

    def _made(
        self, asset: Asset, day: str | None, inputs: tuple[object, ...], run: str, limit: int
    ) -> Result:
        made = evaluate(asset, day, inputs, limit)
        return self.add_result(asset, day, inputs, run, made, limit=limit)

    def add_result(
        self,
        asset: Asset,
        day: str | None,
        inputs: tuple[object, ...],
        run: str,
        made: Made,
        corrections: Mapping[str, Record] | None = None,
        limit: int | None = None,
    ) -> Result:
        number = len(self.numbered) + 1
        self.numbered[number] = Result(
            number=number,
            target=(asset.name, day),
            definition=self.definition(asset, limit),
            inputs=inputs,
            pieces={name: Piece(rows=rows, result=number) for name, rows in made.rows.items()},
            run=run,
            rejected=made.rejected,
            corrections=corrections or {},
        )
        return self.numbered[number]

    # ---- rejections -----------------------------------------------------------------------

    def open(self, target: Target) -> dict[str, str]:
        """The open rejections of what readers see of a target: their key, and the run to replay.
        A replay whose rows a rollback took back does not count."""
        piece = self.current.get(target[0], {}).get(target[1])
        if piece is None:
            return {}
        result = self.numbered[piece.result]
        found = dict.fromkeys(result.rejected, result.run)
        for replay in result.replays:
            if not replay.rows or replay.run in piece.replays:
                for key, passed in replay.passed.items():
                    found[key] = replay.run
                    if passed:
                        del found[key]
        return {k: run for k, run in found.items() if (run, target, k) not in self.discarded}


def evaluate(asset: Asset, day: str | None, inputs: tuple[object, ...], limit: int) -> Made:
    if not asset.source:
        return asset.make(*inputs)
    return asset.make(records_of(inputs), day=day, limit=limit)


def records_of(inputs: tuple[object, ...]) -> list[Record]:
    [files] = inputs
    assert isinstance(files, dict)
    return [record for lines in files.values() for record in lines]


def _records_in(asset: Asset, inputs: tuple[object, ...]) -> int:
    first = inputs[0]
    assert isinstance(first, Mapping)
    return sum(map(len, first.values())) if asset.source else len(first)


def _joined(asset: Asset, before: Piece | None, piece: Piece, on_purpose: bool) -> Piece:
    """A correction lives until the partition is made again: a result that is reused keeps what a
    replay added to it, one that is made again replaces it. Equal rows are not published again,
    unless they were made on purpose: the rows that are there come from where they came from."""
    if before is None:
        return piece
    if before.result == piece.result:
        return before
    if asset.appends:
        known = {row[0] for row in before.rows}
        rows = dict(before.rows) | {r: ids for r, ids in piece.rows.items() if r[0] not in known}
        return replace(piece, rows=rows)
    if set(before.rows) == set(piece.rows) and not before.replays and not on_purpose:
        return replace(piece, rows=before.rows)
    return piece
