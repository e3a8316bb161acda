"""Levels of one result: from rows of its output down to its records.

Level 0 are the records; each step that combined or multiplied rows opened the next level. If a step
added rows and kept the others, both are in the output: a key that the step did not make is carried
on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.walk import WalkCounts
from tallyman.engine.files.duck import quoted, text
from tallyman.engine.readback.key_text import KeyShape, key_piece
from tallyman.engine.readback.session import DuckSession, parquet, parquet_files
from tallyman.engine.segment.group_key import WHOLE

KIND = {"group": "reverse_joins", "child": "parent_child"}
DID = {"group": "combined", "child": "multiplied"}
SYSTEM = "_tm"
NONE = "NULL::VARCHAR"
EMPTY = f"SELECT {NONE} AS k, {NONE} AS p, {NONE} AS s WHERE false"


@dataclass(frozen=True, slots=True)
class Level:
    """The rows that a step made of the rows of the level below."""

    step: str
    unit: str
    files: tuple[str, ...]
    replaces: bool
    """True if the rows it was made from ended here; otherwise they went on alongside it."""

    @property
    def did(self) -> str:
        return DID[self.unit]


@dataclass(frozen=True, slots=True)
class Own:
    """Key and place of an output row's record, and the step that made a row without a record; as
    expressions.
    """

    key: str
    place: str
    step: str


@dataclass(frozen=True)
class Levels:
    """The evidence of one result. `folder` is that of the run, or of a recomputation."""

    duck: DuckSession
    folder: Path
    ledger: StoredLedger

    @cached_property
    def opened(self) -> list[Level]:
        below = self.ledger.partitions
        found = []
        for sub in self.ledger.sub_ledgers:
            step, unit = sub.opened_by, sub.unit
            place = f"adjoint/{KIND.get(unit, KIND['group'])}/{step}.parquet"
            # Rows that went on alongside the groups were not replaced by them.
            on = any(part.fate is Fate.PASSED for part in below)
            replaces = not on and any(part.location == place for part in below)
            files = tuple(parquet_files(self.folder / place))
            found.append(Level(step, "child" if unit == "child" else "group", files, replaces))
            below = sub.partitions
        return found

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """List the columns of the output that hold the source key, if there are such columns."""
        for part in self.ledger.levels[-1]:
            if part.fate is Fate.PASSED:
                return part.key_columns
        return ()

    def needed(self, types: Mapping[str, str]) -> list[str]:
        """List the columns of an output that lead to its rows' keys."""
        if has_keys(types):
            return [SYSTEM, *self.key_columns]
        shape = self.shape(self.opened[-1]) if self.opened else None
        return [name for name in shape.names if name != WHOLE] if shape else []

    def shape(self, level: Level) -> KeyShape | None:
        """Return the shape of a group's key; None without evidence."""
        if level.unit == "child" or not level.files:
            return None
        found = f"SELECT unnest(group_key) FROM {parquet(level.files[:1])}"
        types = self.duck.columns(found)
        return KeyShape(tuple(types), tuple(types.values()), always_json=True)

    def has_keys(self, level: Level) -> bool:
        """True if the evidence names the rows of a group; False if it has only their digest."""
        if level.unit == "child" or not level.files:
            return True
        return "source_key" in self.duck.columns(f"SELECT * FROM {parquet(level.files[:1])}")

    # ---- from rows to records --------------------------------------------------------------

    def behind(self, rows: str) -> tuple[str, list[WalkCounts]]:
        """Make a table `k, p` of the records of output rows, and list what each step on the way
        did.

        `k` is the key. `p` is the place, if keys did not distinguish the records of the run.
        """
        steps: list[WalkCounts] = []
        levels = list(self.opened)
        if has_keys(self.duck.columns(f"SELECT * FROM {rows}")):
            keys = self.keys_of(rows)
        else:
            level = levels.pop()
            shape = self.shape(level)
            names = [name for name in shape.names if name != WHOLE] if shape else []
            keys = self._sources(level, rows, [quoted(n) for n in names], names)
            steps.append(WalkCounts(step=level.step, did=level.did, count=self.duck.count(keys)))
        for level in reversed(levels):
            keys, counted = self._below(level, keys)
            if counted:
                steps.append(WalkCounts(step=level.step, did=level.did, count=counted))
        return keys, steps

    def keys_of(self, rows: str) -> str:
        """Make a table of the keys that output rows carry, and of the steps that made the rows."""
        own = self.own(rows)
        named = f"{own.key} AS k, {own.place} AS p, {own.step} AS s"
        return self.duck.keep(f"SELECT {named} FROM {rows}")

    def own(self, rows: str) -> Own:
        """Find what output rows carry: in the fields of their `_tm`, or in their key column."""
        known = self.duck.columns(f"SELECT unnest(_tm) FROM {rows}")
        key = "_tm.key"
        if self.key_columns:
            name = self.key_columns[0]
            kind = self.duck.columns(f"SELECT {quoted(name)} AS held FROM {rows}")["held"]
            key = f"coalesce(_tm.key, {key_piece(quoted(name), kind)})"
        place, step = (f"_tm.{n}" if n in known else NONE for n in ("place", "step"))
        return Own(key, place, step)

    def place(self, level: Level) -> str:
        """Return the place of a record in a level's evidence, as an expression."""
        return self.evidence_of(level.files, "source_place")

    def evidence_of(self, files: Sequence[str], name: str) -> str:
        """Return a column of evidence, as an expression; NULL if the evidence does not have it."""
        known = self.duck.columns(f"SELECT * FROM {parquet(files)}")
        return name if name in known else NONE

    def _below(self, level: Level, keys: str) -> tuple[str, int]:
        if not level.files:
            return keys, 0
        if level.unit == "child":
            made = self.duck.keep(
                f"SELECT DISTINCT child_key AS made, parent_key AS k, {self.place(level)} AS p, "
                f"{NONE} AS s FROM {parquet(level.files)} e SEMI JOIN {keys} w "
                f"ON child_key = w.k AND {self.place(level)} IS NOT DISTINCT FROM w.p"
            )
            found = self.duck.keep(f"SELECT DISTINCT k, p, s FROM {made}")
            same = "made = w.k AND m.p IS NOT DISTINCT FROM w.p"
            rest = f"SELECT w.k, w.p, w.s FROM {keys} w ANTI JOIN {made} m ON {same}"
        else:
            shape = self.shape(level)
            assert shape is not None
            names = [name for name in shape.names if name != WHOLE]
            pieces = shape.pieces("k") if names else []
            if level.replaces:
                found = self._sources(level, keys, pieces, names)
                return found, self.duck.count(found)
            # A record's key may look like a group's key: the step that made the row distinguishes
            # them.
            others = ", ".join(text(one.step) for one in self.opened if one is not level)
            here = f"s NOT IN ({others})" if others else "s IS NOT NULL"
            made = self.duck.keep(f"SELECT * FROM {keys} WHERE {here}")
            found = self._sources(level, made, pieces, names)
            groups = ", ".join(f"group_key.{quoted(n)} AS {quoted(n)}" for n in shape.names)
            of_row = shape.pieces("m.k") if names else []
            same = _same([f"g.{quoted(n)}" for n in names], of_row) if names else "true"
            known = f"(SELECT DISTINCT {groups} FROM {parquet(level.files)})"
            rest = (
                f"SELECT m.k, m.p, m.s FROM {made} m ANTI JOIN {known} g ON {same} "
                f"UNION ALL SELECT k, p, s FROM {keys} WHERE ({here}) IS NOT TRUE"
            )
        counted = self.duck.count(found)
        if level.replaces:
            return found, counted
        return self.duck.keep(f"SELECT k, p, s FROM {found} UNION ALL ({rest})"), counted

    def _sources(self, level: Level, rows: str, values: Sequence[str], names: Sequence[str]) -> str:
        """Find the keys of groups; `values` identify a row's group."""
        if not level.files:
            return self.duck.keep(EMPTY)
        step = self.evidence_of(level.files, "source_step")
        evidence = (
            f"SELECT source_key AS k, {self.place(level)} AS p, {step} AS s "
            f"FROM {parquet(level.files)} e"
        )
        if not names:
            return self.duck.keep(evidence)
        listed = ", ".join(f"{v} AS v{n}" for n, v in enumerate(values))
        wanted = f"(SELECT DISTINCT {listed} FROM {rows})"
        own = [f"e.group_key.{quoted(name)}" for name in names]
        same = _same(own, [f"w.v{n}" for n in range(len(values))])
        return self.duck.keep(f"{evidence} SEMI JOIN {wanted} w ON {same}")


def has_keys(types: Mapping[str, str]) -> bool:
    """True if rows of an output carry their keys; groups are identified by their own columns."""
    return re.match(r'STRUCT\("?key"? ', types.get(SYSTEM, "")) is not None


def _same(left: Sequence[str], right: Sequence[str]) -> str:
    """Compare columns; NULL equals NULL."""
    pairs = zip(left, right, strict=True)
    return " AND ".join(f"{a} IS NOT DISTINCT FROM {b}" for a, b in pairs)
