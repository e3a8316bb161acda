"""Verbs about versions: going back, and declaring results invalid."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.model.meaning import ASSETS, PRODUCER
from tests.model.play import Play
from tests.model.project import DAYS
from tests.model.state import World, rows_of
from tests.model.tables import COLUMNS, refers, rows

DATASETS = [*PRODUCER, *COLUMNS]


@dataclass(frozen=True)
class Rollback:
    """One dataset, some versions back, and with it the others that its asset makes."""

    dataset: str
    back: int

    @classmethod
    def draw(cls, random: Random, world: World) -> Rollback:
        older = [name for name in DATASETS if world.heads.get(name, 0) > 1]
        name = random.choice(older or DATASETS)
        return cls(name, random.randint(1, max(1, world.heads.get(name, 1) - 1)))

    def possible(self, world: World) -> bool:
        return all(at in world.seen for at in self.targets(world))

    def targets(self, world: World) -> list[tuple[str, int]]:
        """The version to go back to, and those that other outputs of its asset had when it was
        current last."""
        to = world.heads.get(self.dataset, 0) - self.back
        found = [one for one in world.commits if one.heads.get(self.dataset) == to]
        if not found:
            return [(self.dataset, 0)]
        producer = PRODUCER.get(self.dataset)
        others = [n for n, p in PRODUCER.items() if p == producer and n != self.dataset]
        return [(self.dataset, to), *((name, found[-1].heads[name]) for name in others)]

    def do(self, play: Play) -> None:
        world = play.world
        to = world.heads[self.dataset] - self.back
        words = ("rollback", world.shown(self.dataset), "--to", str(to))
        if self.dataset in COLUMNS:
            tables = {name: rows(world, name) for name in COLUMNS}
            tables[self.dataset] = {row[0]: row for row in rows_of(world.seen[self.dataset, to])}
            if not refers(tables):
                play.refused(*words, code=1)
                return
        play.ok(*words)
        for name, version in self.targets(world):
            if version != world.heads[name]:
                move_back(world, name, version)


def move_back(world: World, dataset: str, to: int) -> None:
    world.current[dataset] = world.seen[dataset, to]
    now = world.heads[dataset] + 1
    world.restored[dataset, now] = world.restored.get((dataset, to), to)


@dataclass(frozen=True)
class RollbackCommit:
    """All datasets and the pipeline, some commits back."""

    back: int

    @classmethod
    def draw(cls, random: Random, world: World) -> RollbackCommit:
        return cls(random.choice((1, 1, 2, 3)))

    def possible(self, world: World) -> bool:
        if self.back >= len(world.commits):
            return False
        then = world.commits[-1 - self.back]
        return set(then.heads) >= set(world.heads) and all(
            at in world.seen or world.heads[at[0]] == at[1] for at in then.heads.items()
        )

    def do(self, play: Play) -> None:
        world = play.world
        then = world.commits[-1 - self.back]
        play.ok("rollback", "--commit", then.id)
        for dataset, to in then.heads.items():
            if to != world.heads[dataset]:
                move_back(world, dataset, to)
        if then.active is not None and then.active != world.active:
            if world.active is not None:
                world.rolled_back.add(world.active)
            world.activated(then.active)


@dataclass(frozen=True)
class Snapshot:
    """A version gets a name that it keeps."""

    dataset: str
    back: int

    @classmethod
    def draw(cls, random: Random, world: World) -> Snapshot:
        return cls(random.choice(sorted(world.heads)), random.choice((0, 0, 1)))

    def possible(self, world: World) -> bool:
        at = (self.dataset, world.heads.get(self.dataset, 0) - self.back)
        return at in world.seen and len(world.snapshots) < 3

    def do(self, play: Play) -> None:
        world = play.world
        alias, at = f"kept_{len(world.snapshots)}", world.heads[self.dataset] - self.back
        play.ok("snapshot", world.shown(self.dataset), alias, "--version", str(at))
        world.snapshots[alias] = (self.dataset, at)


@dataclass(frozen=True)
class Purge:
    """A version is removed, unless it is in use."""

    dataset: str
    back: int

    @classmethod
    def draw(cls, random: Random, world: World) -> Purge:
        older = [name for name in DATASETS if world.heads.get(name, 0) > 2]
        return cls(random.choice(older or DATASETS), random.choice((0, 1, 2, 2, 3)))

    def possible(self, world: World) -> bool:
        return (self.dataset, world.heads.get(self.dataset, 0) - self.back) in world.seen

    def do(self, play: Play) -> None:
        world = play.world
        at = (self.dataset, world.heads[self.dataset] - self.back)
        words = ("purge", world.shown(self.dataset), str(at[1]), "--confirm")
        if in_use(world, *at):
            play.refused(*words, code=4)
        else:
            play.ok(*words)
            del world.seen[at]
            world.removed = True


def in_use(world: World, dataset: str, version: int) -> bool:
    """True if the version is current, again or next in line, or has a name."""
    now = world.heads[dataset]
    again = world.restored.get((dataset, now))
    return version in (now, now - 1, again) or (dataset, version) in world.snapshots.values()


@dataclass(frozen=True)
class Rename:
    """A dataset gets another name, or its own again."""

    dataset: str

    @classmethod
    def draw(cls, random: Random, world: World) -> Rename:
        return cls(random.choice(sorted(world.heads)))

    def possible(self, world: World) -> bool:
        return self.dataset in world.heads

    def do(self, play: Play) -> None:
        world = play.world
        new = self.dataset if self.dataset in world.names else f"{self.dataset}_called"
        play.ok("rename", world.shown(self.dataset), new)
        world.names.pop(self.dataset, None)
        if new != self.dataset:
            world.names[self.dataset] = new


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
