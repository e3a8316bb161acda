"""What a person can do to sources and runs. Each verb names what it needs, what it does, and what
it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.model.meaning import ASSETS, BOARD, PRODUCER, Record
from tests.model.play import Disagrees, Play
from tests.model.project import DAYS
from tests.model.state import NotReady, Target, World
from tests.world.reply import Reply

FILES = (
    *(f"raw/{day}/{name}.jsonl" for day in DAYS for name in "ab"),
    "items/a.jsonl",
    "items/b.jsonl",
)


def some_records(random: Random, file: str) -> tuple[Record, ...]:
    """Up to five records with keys of this file; some cannot be used, some are of another day."""
    folder, *day, name = file.removesuffix(".jsonl").split("/")
    mark = f"{day[0] if day else folder}-{name}"
    return tuple(
        some_record(random, f"{mark}{n}", day[0] if day else "mon")
        for n in sorted(random.sample(range(6), random.randint(1, 5)))
    )


def some_record(random: Random, key: str, day: str, *, bad: float = 0.25) -> Record:
    n: int | str = random.choice((1, 2, 3, 7, 12, 20, 35, 48, 60))
    if random.random() < bad:
        n = random.choice((-4, 0, "many"))
    day = day if random.random() > bad / 4 else random.choice(DAYS)
    return Record(key, day, random.choice("xyz"), n)


@dataclass(frozen=True)
class WriteFile:
    """A file of a source is added, changed or emptied."""

    name: str
    records: tuple[Record, ...]

    @classmethod
    def draw(cls, random: Random, world: World) -> WriteFile:
        name = random.choice(FILES)
        there = world.files.get(name)
        if there and random.random() < 0.15:
            return cls(name, ())
        if there and random.random() < 0.2:
            return cls(name, tuple(random.sample(there, len(there))))
        return cls(name, some_records(random, name))

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        play.source(self.name, self.records)


@dataclass(frozen=True)
class DeleteFile:
    """A file of a source is deleted; another one stays, because a source without files is an
    error."""

    name: str

    @classmethod
    def draw(cls, random: Random, world: World) -> DeleteFile:
        return cls(random.choice(FILES))

    def possible(self, world: World) -> bool:
        folder = self.name.rpartition("/")[0]
        return self.name in world.files and sum(f.startswith(folder) for f in world.files) > 1

    def do(self, play: Play) -> None:
        del play.world.files[self.name]
        play.log.append(f"rm data/{self.name}")
        (play.home.path / "data" / self.name).unlink()


@dataclass(frozen=True)
class Run:
    """A run of some assets, with what they read, what reads them, or both."""

    assets: tuple[str, ...]
    days: tuple[str, ...]
    """One day: `run --partition`; several: `backfill`; none: assets without days."""
    force: bool = False
    before: bool = False
    after: bool = False
    past: int | None = None
    """A past version of the pipeline, by its limit, instead of the files."""

    @classmethod
    def draw(cls, random: Random, world: World) -> Run:
        chosen = tuple(sorted(random.sample(list(ASSETS), random.choice((1, 1, 1, 2)))))
        before, after = random.random() < 0.2, random.random() < 0.35
        force = random.random() < 0.15
        days: tuple[str, ...] = ()
        if any(ASSETS[name].by_day for name in _selected(chosen, before, after)):
            first = random.randrange(len(DAYS))
            days = DAYS[first : first + random.choice((1, 1, 1, 2, 3))]
        past = random.choice(list(world.hashes)) if random.random() < 0.1 else None
        return cls(chosen, days, force, before, after, past)

    def possible(self, world: World) -> bool:
        if self.past is not None and self.past not in world.hashes:
            return False
        sources = [(ASSETS[asset].source, day) for asset, day in self.targets()]
        return all(world.records(name, day) for name, day in sources if name)

    def targets(self) -> list[Target]:
        names = _selected(self.assets, self.before, self.after)
        return [
            (name, day) for name in names for day in (self.days if ASSETS[name].by_day else (None,))
        ]

    def words(self, world: World) -> list[str]:
        terms = [f"{'+' * self.before}{name}{'+' * self.after}" for name in self.assets]
        days: list[str] = []
        if len(self.days) == 1:
            days = ["--partition", self.days[0]]
        elif self.days:
            days = ["--partitions", ",".join(self.days)]
        days += ["--force"] * self.force
        if len(self.days) > 1:
            return ["backfill", *terms, *days]
        past = [] if self.past is None else ["--pipeline-version", world.hashes[self.past]]
        return ["run", *terms, *days, *past]

    def limit(self, world: World) -> int:
        return world.limit if self.past is None or len(self.days) > 1 else self.past

    def do(self, play: Play) -> None:
        world, limit = play.world, self.limit(play.world)
        if limit in world.rolled_back:
            play.refused(*self.words(world), code=4)
            return
        self.done(play, play.said(*self.words(world)))

    def done(self, play: Play, reply: Reply) -> None:
        """Publish it in the model too, or not if an input is not ready."""
        run, limit = str((reply.json or {}).get("run_id")), self.limit(play.world)
        force = self.assets if self.force else ()
        ran(
            play,
            reply,
            lambda: play.world.run(run, self.targets(), force=force, limit=limit),
            run,
        )


@dataclass(frozen=True)
class RunBoard:
    """The second pipeline reads the current version of a dataset of the first."""

    force: bool

    @classmethod
    def draw(cls, random: Random, world: World) -> RunBoard:
        return cls(random.random() < 0.15)

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        words = ("run", *["--force"] * self.force)
        if "good" in play.world.names:  # what it declares has another name now
            play.refused(*words, code=2, board=True)
            return
        reply = play.said(*words, board=True)
        run, force = str((reply.json or {}).get("run_id")), [BOARD.name] * self.force
        ran(play, reply, lambda: play.world.run(run, [(BOARD.name, None)], force=force), run)


def ran(play: Play, reply: Reply, work: Callable[[], dict[Target, int]], run: str) -> None:
    """Do a run in the model too; if an input is not ready there, it published nothing."""
    try:
        read = work()
    except NotReady as lacking:
        if reply.code not in (1, 4):
            raise Disagrees(f"{lacking} was expected not to be ready: {reply}") from None
        return
    if reply.code:
        raise Disagrees(f"expected to work: {play.log[-1]}\n{reply}")
    play.latest, play.read = run, read


def _selected(chosen: tuple[str, ...], before: bool, after: bool) -> list[str]:
    """The assets of a selection, in the order they run."""
    found = set(chosen or ASSETS)
    if before:
        found |= {up for name in chosen for up in _ups(name)}
    if after:
        found |= {name for name in ASSETS if set(_ups(name)) & set(chosen)}
    return [name for name in ASSETS if name in found]


def _ups(name: str) -> list[str]:
    direct = [PRODUCER[read] for read in ASSETS[name].reads]
    return direct + [up for one in direct for up in _ups(one)]
