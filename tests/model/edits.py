"""Verbs about the pipeline: an edited rule, and a plan that is applied."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.model.meaning import ASSETS, PRODUCER
from tests.model.play import Disagrees, Play
from tests.model.project import pipeline
from tests.model.state import Piece, Target, World
from tests.model.verbs import ran

LIMITS = (50, 30, 8)


@dataclass(frozen=True)
class EditRule:
    """Another limit in the rule of `good`."""

    limit: int

    @classmethod
    def draw(cls, random: Random, world: World) -> EditRule:
        return cls(random.choice([limit for limit in LIMITS if limit != world.limit]))

    def possible(self, world: World) -> bool:
        return self.limit != world.limit

    def do(self, play: Play) -> None:
        play.log.append(
            f'sed -i \'s/"n < {play.world.limit}", /"n < {self.limit}", /\' pipelines/p.py'
        )
        play.home.pipeline(pipeline(self.limit))
        play.world.limit = self.limit


@dataclass(frozen=True)
class Apply:
    """A plan, and its application: what was edited is made again, and what reads it."""

    @classmethod
    def draw(cls, random: Random, world: World) -> Apply:
        return cls()

    def possible(self, world: World) -> bool:
        sources = [(ASSETS[asset].source, day) for asset, day in planned(world)]
        return all(world.records(name, day) for name, day in sources if name)

    def do(self, play: Play) -> None:
        world, targets = play.world, planned(play.world)
        plan = play.ok("plan")
        builds = {one["name"] for one in plan["planned"] if one["action"] in ("create", "rebuild")}
        if builds != {name for name, _ in targets}:
            raise Disagrees(f"the plan builds {sorted(builds)}, the model {targets}")
        reply = play.said("apply", plan["id"])
        run = str((reply.json or {}).get("run_id"))
        ran(play, reply, lambda: world.run(run, targets), run)
        if not targets:
            play.latest = None


def planned(world: World) -> list[Target]:
    """What a plan makes again: all there is of assets whose rows were made by another definition,
    and of what reads them. A definition that once made the same rows counts as well."""
    built: set[str] = set()
    for name, asset in ASSETS.items():
        there = world.current.get(name)
        old = there is None or any(
            not _made_by(world, (name, day), piece) for day, piece in there.items()
        )
        if (old and not asset.appends) or {PRODUCER[read] for read in asset.reads} & built:
            built.add(name)
    return [
        (name, day)
        for name, asset in ASSETS.items()
        if name in built
        for day in sorted(world.current.get(name, {None: None}), key=str)
    ]


def _made_by(world: World, target: Target, piece: Piece) -> bool:
    """True if the present definition made these rows, or the same ones another time."""
    wanted, mine = world.definition(ASSETS[target[0]]), world.numbered[piece.result]
    if mine.definition == wanted or piece.replays:
        return mine.definition == wanted
    rows = dict(mine.pieces[target[0]].rows)
    return any(
        result.definition == wanted and dict(result.pieces[target[0]].rows) == rows
        for result in world.numbered.values()
        if result.target == target
    )
