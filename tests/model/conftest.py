"""Projects in their first state: made once, copied for each sequence."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.model.compare import look
from tests.model.play import Play
from tests.model.project import BOARD, DAYS, pipeline
from tests.model.state import World
from tests.model.tables import FIRST
from tests.model.verbs import FILES, Run, RunBoard, some_records
from tests.world.databases import Databases
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes


@dataclass
class Stage:
    """Where sequences are played: always in the same folder, because paths in files of versions are
    absolute."""

    databases: Databases
    path: Path
    kept: Path
    address: str
    world: World
    log: list[str]
    _playing: list[tuple[tuple[Home, Home], str]] = field(default_factory=list)

    def new(self) -> Play:
        """A project in its first state; the one before is gone."""
        self.clear()
        # With new times: this process knows files by inode and time, and inodes are used again.
        subprocess.run(["cp", "-r", "--preserve=links", self.kept, self.path], check=True)
        address = self.databases.new(self.address)
        both = (Home(self.path), Home(self.path / "board"))
        for home in both:
            settings = home.path / "tallyman.yaml"
            settings.write_text(settings.read_text().replace(self.address, address))
        self._playing.append((both, address))
        return Play(*both, deepcopy(self.world), list(self.log))

    def clear(self) -> None:
        while self._playing:
            both, address = self._playing.pop()
            for home in both:
                home.close()
            self.databases.drop(address)
            shutil.rmtree(self.path)


@pytest.fixture(scope="package")
def stage(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, spark_server: str
) -> Iterator[Stage]:
    """Two of three days made."""
    with Homes(tmp_path_factory, databases, spark_server) as homes:
        home = homes.make(Home, "model", INTERPRETED)
        home.pipeline(pipeline(50))
        board = second(home)
        play = Play(home, board, World())
        random = Random(4)
        for name in FILES:
            play.source(name, some_records(random, name))
        FIRST.do(play)
        look(play, random)
        Run((), DAYS[:2]).do(play)
        look(play, random)
        for name in ("raw/mon/a.jsonl", "items/a.jsonl"):
            play.source(name, some_records(random, name))
        Run(("good", "plog", "parts"), ("mon",), after=True).do(play)
        look(play, random)
        RunBoard(force=False).do(play)
        look(play, random)
        home.close()
        board.close()
        kept = home.path.with_name(f"{home.path.name}-kept")
        home.path.rename(kept)
        address = kept.joinpath("tallyman.yaml").read_text().splitlines()[0].split(" ", 1)[1]
        made = Stage(databases, home.path, kept, address, play.world, play.log)
        yield made
        made.clear()


def second(home: Home) -> Home:
    """A pipeline of its own in the same database, which reads what the first one publishes."""
    board = Home(home.path / "board")
    board.path.mkdir()
    settings = (home.path / "tallyman.yaml").read_text().replace("name: model", "name: board")
    (board.path / "tallyman.yaml").write_text(settings)
    return board.pipeline(BOARD)
