"""Verbs about tables."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.model.meaning import Row
from tests.model.play import Play
from tests.model.state import Piece, World

COLUMNS = {"kinds": ("kind", "label"), "grades": ("kind", "grade")}


@dataclass(frozen=True)
class Insert:
    """New rows, of one table or two in one commit."""

    rows: tuple[tuple[str, Row], ...]

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        statements = [
            {"insert": {"into": table, "rows": [dict(zip(COLUMNS[table], row, strict=True))]}}
            for table, row in self.rows
        ]
        play.write("change.json", json.dumps({"statements": statements}))
        play.ok("mutate", "change.json")
        for table, row in self.rows:
            there = play.world.current.get(table, {})
            before = there[None].rows if there else {}
            play.world.current[table] = {None: Piece(rows={**before, row: frozenset()}, result=0)}


FIRST = Insert((("kinds", ("x", "ex")), ("kinds", ("y", "why")), ("grades", ("x", 1))))
