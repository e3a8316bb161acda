"""Verbs about versions: going back, and declaring results invalid."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.model.meaning import ASSETS, PRODUCER
from tests.model.play import Play
from tests.model.project import DAYS
from tests.model.state import World

ALONE = [name for name in PRODUCER if PRODUCER[name] != "parts"]
"""Datasets that are the only output of their asset."""


@dataclass(frozen=True)
class Rollback:
    """One dataset, some versions back."""

    dataset: str
    back: int

    @classmethod
    def draw(cls, random: Random, world: World) -> Rollback:
        older = [name for name in ALONE if world.heads.get(name, 0) > 1]
        name = random.choice(older or ALONE)
        return cls(name, random.randint(1, max(1, world.heads.get(name, 1) - 1)))

    def possible(self, world: World) -> bool:
        return (self.dataset, world.heads.get(self.dataset, 0) - self.back) in world.seen

    def do(self, play: Play) -> None:
        world = play.world
        to = world.heads[self.dataset] - self.back
        play.ok("rollback", self.dataset, "--to", str(to))
        world.current[self.dataset] = world.seen[self.dataset, to]


@dataclass(frozen=True)
class Invalidate:
    """The results of an asset, or of one day of it, no longer count."""

    asset: str
    day: str | None

    @classmethod
    def draw(cls, random: Random, world: World) -> Invalidate:
        name = random.choice(list(ASSETS))
        day = random.choice((None, *DAYS)) if ASSETS[name].by_day else None
        return cls(name, day)

    def possible(self, world: World) -> bool:
        return any(t[0] == self.asset and self.day in (None, t[1]) for t in world.results)

    def do(self, play: Play) -> None:
        play.ok("invalidate", self.asset, *(["--partition", self.day] if self.day else []))
        for target in list(play.world.results):
            if target[0] == self.asset and self.day in (None, target[1]):
                del play.world.results[target]
                play.world.invalid.add(target)
