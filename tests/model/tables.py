"""Verbs about tables: `kinds`, and `grades`, whose rows refer to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.model.meaning import Row
from tests.model.play import Play
from tests.model.state import Piece, World, rows_of

COLUMNS = {"kinds": ("kind", "label"), "grades": ("kind", "grade")}
KINDS = "xyz"
Values = dict[object, Row]
"""The rows of a table by key."""


def rows(world: World, table: str) -> Values:
    return {row[0]: row for row in rows_of(world.current.get(table, {}))}


def set_rows(world: World, table: str, to: Values) -> None:
    if to != rows(world, table) or table not in world.current:
        world.current[table] = {None: Piece(rows=dict.fromkeys(to.values(), frozenset()), result=0)}


def refers(tables: Mapping[str, Values]) -> bool:
    """True if every grade is of a kind that exists."""
    return set(tables["grades"]) <= set(tables["kinds"])


def some_row(random: Random, table: str) -> Row:
    value = random.choice(("ex", "why", None)) if table == "kinds" else random.randint(1, 3)
    return (random.choice(KINDS), value)


@dataclass(frozen=True)
class Insert:
    """New rows, of one table or two in one commit."""

    new: tuple[tuple[str, Row], ...]

    @classmethod
    def draw(cls, random: Random, world: World) -> Insert:
        tables = random.sample(list(COLUMNS), random.choice((1, 2)))
        return cls(tuple((name, some_row(random, name)) for name in tables))

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        statements = [
            {"insert": {"into": table, "rows": [dict(zip(COLUMNS[table], row, strict=True))]}}
            for table, row in self.new
        ]
        play.write("change.json", json.dumps({"statements": statements}))
        after = {name: rows(play.world, name) for name in COLUMNS}
        for table, row in self.new:
            taken = row[0] in after[table]
            after[table] = {**after[table], row[0]: row}
            if taken or not refers(after):
                play.refused("mutate", "change.json", code=4 if taken else 1)
                return
        play.ok("mutate", "change.json")
        for table in {name for name, _ in self.new}:
            set_rows(play.world, table, after[table])


@dataclass(frozen=True)
class Change:
    """The value of one kind in a table; without a value the row is deleted."""

    table: str
    row: Row
    delete: bool

    @classmethod
    def draw(cls, random: Random, world: World) -> Change:
        table = random.choice(list(COLUMNS))
        return cls(table, some_row(random, table), random.random() < 0.4)

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        where = {"kind": self.row[0]}
        change: dict[str, object] = {
            "update": {
                "dataset": self.table,
                "set": {COLUMNS[self.table][1]: self.row[1]},
                "where": where,
            }
        }
        if self.delete:
            change = {"delete": {"from": self.table, "where": where}}
        play.write("change.json", json.dumps({"statements": [change]}))
        after = {name: rows(play.world, name) for name in COLUMNS}
        if self.delete:
            after[self.table].pop(self.row[0], None)
        elif self.row[0] in after[self.table]:
            after[self.table][self.row[0]] = self.row
        if not refers(after):
            play.refused("mutate", "change.json", code=1)
            return
        play.ok("mutate", "change.json")
        set_rows(play.world, self.table, after[self.table])


@dataclass(frozen=True)
class Load:
    """A file into a table."""

    table: str
    new: tuple[Row, ...]
    mode: str

    @classmethod
    def draw(cls, random: Random, world: World) -> Load:
        table = random.choice(list(COLUMNS))
        new = {row[0]: row for row in (some_row(random, table) for _ in range(2))}
        return cls(table, tuple(new.values()), random.choice(("append", "merge", "overwrite")))

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        listed = (dict(zip(COLUMNS[self.table], row, strict=True)) for row in self.new)
        play.write("new.jsonl", "".join(json.dumps(row) + "\n" for row in listed))
        words = ("load", self.table, "new.jsonl", "--mode", self.mode)
        after = {name: rows(play.world, name) for name in COLUMNS}
        new = {row[0]: row for row in self.new}
        taken = self.mode == "append" and set(new) & set(after[self.table])
        after[self.table] = new if self.mode == "overwrite" else {**after[self.table], **new}
        if taken or not refers(after):
            play.refused(*words, code=4 if taken else 1)
            return
        play.ok(*words)
        set_rows(play.world, self.table, after[self.table])


FIRST = Insert((("kinds", ("x", "ex")), ("kinds", ("y", "why")), ("grades", ("x", 1))))
