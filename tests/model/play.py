"""One sequence in progress: the project, the model of it, and the commands so far."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.model.meaning import Record
from tests.model.state import World
from tests.world.home import Home
from tests.world.reply import Reply


class Disagrees(AssertionError):
    """The product and the model say different things."""


class Verb(Protocol):
    """Something that a person does. Frozen: a sequence of verbs can be done again elsewhere."""

    def possible(self, world: World) -> bool: ...

    def do(self, play: Play) -> None:
        """Do it, and move the model in the same way."""
        ...


@dataclass
class Play:
    home: Home
    board: Home
    """The second pipeline, in the same database."""
    world: World
    log: list[str] = field(default_factory=list)
    """The sequence as a shell would run it."""
    latest: str | None = None
    """The run that the last verb made."""
    read: dict[tuple[str, str | None], int] = field(default_factory=dict)
    """How many records each target of it must have read, if that is known."""

    def said(self, *words: str, board: bool = False, **more: str) -> Reply:
        home = self.board if board else self.home
        given = ["cd board &&"] * board + [f"{name}={value}" for name, value in more.items()]
        self.log.append(" ".join([*given, "tallyman", *map(shlex.quote, words)]))
        try:
            return home.tallyman(*words, **more)
        except Exception as error:
            raise Disagrees(f"{self.log[-1]}: {type(error).__name__}: {error}") from error

    def ok(self, *words: str, **more: str) -> Any:
        reply = self.said(*words, **more)
        if reply.code:
            raise Disagrees(f"expected to work: {self.log[-1]}\n{reply}")
        return reply.json

    def refused(self, *words: str, code: int, board: bool = False) -> None:
        reply = self.said(*words, board=board)
        if reply.code != code:
            raise Disagrees(f"expected exit {code}: {self.log[-1]}\n{reply}")

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        self.log.append(f"printf {shlex.quote(text.replace(chr(10), chr(92) + 'n'))} > {name}")
        place = self.home.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def source(self, name: str, records: tuple[Record, ...]) -> None:
        """Write a file of a source."""
        self.world.files[name] = records
        self.write(f"data/{name}", lines(records))


def lines(records: tuple[Record, ...]) -> str:
    return "".join(json.dumps(record.line()) + "\n" for record in records)
