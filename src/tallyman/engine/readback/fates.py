"""Fates of records in one result: rejected, filtered, or the output rows they are in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import Partition
from tallyman.domain.account.redaction import covers
from tallyman.domain.history.walk import Ended, Rejected, WalkCounts
from tallyman.engine.files.duck import quoted, text
from tallyman.engine.readback.dead_letters import READ
from tallyman.engine.readback.key_text import KeyShape, key_piece
from tallyman.engine.readback.levels import EMPTY, NONE, Level, Levels, has_keys
from tallyman.engine.readback.session import DuckSession, parquet, parquet_files
from tallyman.engine.segment.group_key import WHOLE

LETTER_PLACE = "context['place']"


@dataclass
class Fates:
    """The fates of a few records. `rows` is a table of their output rows: `file`, `_tm_line`."""

    rejections: list[Rejected] = field(default_factory=list)
    filtered: list[Ended] = field(default_factory=list)
    steps: list[WalkCounts] = field(default_factory=list)
    rows: str | None = None

    @property
    def known(self) -> bool:
        return bool(self.rejections or self.filtered or self.steps or self.rows)


@dataclass(frozen=True)
class Forward:
    """Records on their way through the levels of one result."""

    duck: DuckSession
    levels: Levels
    shape: KeyShape | None
    """The shape of the records' own keys; None if they have only their place."""
    output: tuple[str, ...]
    """The files of the output's version; empty if there is none to read."""

    def fates(self, keys: str) -> Fates:
        """Find the fates. `keys` is a table of `k` and `p`, the keys and places of the records."""
        found = Fates()
        keys, shape = self._as_kept(keys)
        keys = self.duck.keep(f"SELECT k, p, {NONE} AS s FROM {keys}")
        accounts = self.levels.ledger.levels
        for number, partitions in enumerate(accounts):
            self._ended(partitions, number, keys, shape, found)
            if number == len(accounts) - 1:
                break
            level = self.levels.opened[number]
            if not self.levels.has_keys(level):
                return found  # the keys must be recomputed
            above, count = self._above(level, keys, shape)
            if count:
                done = "aggregated" if level.unit == "group" else "exploded"
                found.steps.append(WalkCounts(step=level.step, did=done, count=count))
            if level.replaces:
                keys, shape = above, self.levels.shape(level)
            elif count:
                keys = self.duck.keep(f"SELECT * FROM {keys} UNION ALL SELECT * FROM {above}")
        self._passed(keys, shape, found)
        return found

    def _as_kept(self, keys: str) -> tuple[str, KeyShape | None]:
        """Convert keys to the form the run wrote: hashes in place of redacted values."""
        hidden = self.levels.ledger.redacted
        covered = [name for name in self.shape.names if covers(hidden, name)] if self.shape else []
        if self.shape is None or not covered:
            return keys, self.shape
        hidden_key = self.shape.hidden_text("k", covered)
        return self.duck.keep(f"SELECT {hidden_key} AS k, p FROM {keys}"), self.shape.hidden(
            covered
        )

    def ended_before(self, keys: str, steps: Collection[str]) -> int:
        """Count the records that one of these steps, or the door, rejected or filtered."""
        ended = self.duck.keep(EMPTY)
        for part in self.levels.ledger.partitions:
            place = self.levels.folder / part.location
            files = parquet_files(place)
            if part.fate is Fate.FILTERED and files and part.step in steps:
                at = self.levels.evidence_of(files, "source_place")
                self.duck.rows(
                    f"INSERT INTO {ended} SELECT source_key, {at}, {NONE} FROM {parquet(files)}"
                )
            letters = self._letters(place)
            if part.fate is Fate.ERROR and letters:
                listed = ", ".join(text(one) for one in ("ingest", *steps))
                self.duck.rows(
                    f"INSERT INTO {ended} SELECT source_key, {LETTER_PLACE}, {NONE} FROM {letters} "
                    f"WHERE context['step'] IN ({listed}) AND context['level'] IS NULL"
                )
        keys, shape = self._as_kept(keys)
        here = self._among("k", "p", ended, shape)
        return int(self.duck.value(f"SELECT count(*) FROM {keys} WHERE {here}"))

    def _letters(self, place: Path) -> str | None:
        files = ", ".join(text(str(path)) for path in sorted(place.rglob("*.jsonl")))
        return READ.replace("$files", f"[{files}]") if files else None

    def _ended(
        self,
        partitions: Sequence[Partition],
        level: int,
        keys: str,
        shape: KeyShape | None,
        found: Fates,
    ) -> None:
        for part in partitions:
            place = self.levels.folder / part.location
            if part.fate is Fate.FILTERED:
                found.filtered += self._filtered(place, part.description, keys, shape)
            if part.fate is Fate.ERROR:
                found.rejections += self._rejected(place, level, keys, shape)

    def _filtered(self, place: Path, why: str, keys: str, shape: KeyShape | None) -> list[Ended]:
        files = parquet_files(place)
        if not files:
            return []
        at = self.levels.evidence_of(files, "source_place")
        rows = self.duck.rows(
            f"SELECT filter_predicate AS predicate, count(*) AS n FROM {parquet(files)} "
            f"WHERE {self._among('source_key', at, keys, shape)} GROUP BY 1"
        )
        step = place.name.removesuffix(".parquet")
        reason = why.removeprefix("Records filtered: ")
        return [
            Ended(step=step, reason=reason, predicate=row["predicate"], count=row["n"])
            for row in rows
        ]

    def _rejected(
        self, place: Path, level: int, keys: str, shape: KeyShape | None
    ) -> list[Rejected]:
        letters = self._letters(place)
        if letters is None:
            return []
        rows = self.duck.rows(
            f"SELECT * FROM {letters} "
            f"WHERE {self._among('source_key', LETTER_PLACE, keys, shape)} "
            f"AND coalesce(context['level'], '0') = '{level}' ORDER BY ALL"
        )
        return [Rejected.of_letter(row) for row in rows]

    def _above(self, level: Level, keys: str, shape: KeyShape | None) -> tuple[str, int]:
        """Find the keys of the groups or children made from these."""
        if not level.files:
            return self.duck.keep(EMPTY), 0
        at, step = self.levels.place(level), text(level.step)
        if level.unit == "child":
            made = self.duck.keep(
                f"SELECT DISTINCT child_key AS k, {at} AS p, {step} AS s "
                f"FROM {parquet(level.files)} WHERE {self._among('parent_key', at, keys, shape)}"
            )
            return made, self.duck.count(made)
        of_group = self.levels.shape(level)
        assert of_group is not None
        kinds = zip(of_group.names, of_group.types, strict=True)
        named = ", ".join(f"{text(n)}, {key_piece(f'group_key.{quoted(n)}', k)}" for n, k in kinds)
        key = "'{}'" if of_group.names == (WHOLE,) else f"CAST(json_object({named}) AS VARCHAR)"
        made = self.duck.keep(
            f"SELECT DISTINCT {key} AS k, {NONE} AS p, {step} AS s "
            f"FROM {parquet(level.files)} WHERE {self._among('source_key', at, keys, shape)}"
        )
        return made, self.duck.count(made)

    def _passed(self, keys: str, shape: KeyShape | None, found: Fates) -> None:
        if not self.output or not self.duck.count(keys):
            return
        output = self.duck.placed(self.output)
        types = self.duck.columns(f"SELECT * FROM {output}")
        if has_keys(types):
            own = self.levels.own(output)
            where = self._among(own.key, own.place, keys, shape)
            if own.step != NONE:  # rows of a working set: records, and added rows
                where = " OR ".join(
                    f"({made} AND {self._among(own.key, own.place, some, of_step)})"
                    for made, some, of_step in self._by_step(own.step, keys, shape)
                )
        elif shape is None or shape.names == (WHOLE,):
            where = "true"
        else:
            pieces = ", ".join(f"{p} AS v{n}" for n, p in enumerate(shape.pieces("k")))
            same = " AND ".join(
                f"o.{quoted(name)} IS NOT DISTINCT FROM w.v{n}"
                for n, name in enumerate(shape.names)
            )
            where = f"EXISTS (SELECT 1 FROM (SELECT {pieces} FROM {keys}) w WHERE {same})"
        rows = self.duck.keep(f"SELECT _tm_file, _tm_line FROM {output} o WHERE {where}")
        if self.duck.count(rows):
            found.rows = rows

    def _by_step(
        self, step: str, keys: str, shape: KeyShape | None
    ) -> list[tuple[str, str, KeyShape | None]]:
        """List the keys of each kind of rows and their shape, with a condition for rows of that
        kind; `shape` is that of records.
        """
        shapes = {level.step: self.levels.shape(level) for level in self.levels.opened}
        found = []
        for row in self.duck.rows(f"SELECT DISTINCT s FROM {keys}"):
            same = "IS NULL" if row["s"] is None else f"= {text(row['s'])}"
            some = f"(SELECT * FROM {keys} WHERE s {same})"
            found.append((f"{step} {same}", some, shapes.get(str(row["s"]), shape)))
        return found

    def _among(self, key: str, place: str, keys: str, shape: KeyShape | None) -> str:
        """Write a condition that key and place belong to one of the records in a table: by place
        where both sides have one, otherwise by key.
        """
        if place == NONE:
            return self._same_key(key, keys, shape)
        at_place = f"coalesce({place} IN (SELECT p FROM {keys} WHERE p IS NOT NULL), false)"
        unplaced = self._same_key(key, f"(SELECT k FROM {keys} WHERE p IS NULL)", shape)
        by_key = f"{place} IS NULL AND {self._same_key(key, keys, shape)}"
        return f"({at_place} OR {unplaced} OR ({by_key}))"

    def _same_key(self, key: str, keys: str, shape: KeyShape | None) -> str:
        """Write a condition that a key text equals one of the keys in a table."""
        exact = f"{key} IN (SELECT k FROM {keys})"
        if shape is None or shape.plain or shape.names == (WHOLE,):
            return exact
        own, theirs = ", ".join(shape.pieces(key)), ", ".join(shape.pieces("k"))
        # A text that is not a key of this shape, like `@file#3`, has no parts and equals only
        # itself.
        these = f"(SELECT ({theirs}) FROM {keys} WHERE {shape.fits('k')})"
        return f"({exact} OR ({shape.fits(key)} AND ({own}) IN {these}))"
