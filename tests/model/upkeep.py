"""Verbs about what runs leave: cleaning up, and a run that is killed."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from random import Random

from tests.model.play import Disagrees, Play
from tests.model.state import NotReady, World
from tests.model.verbs import Run
from tests.model.versions import in_use

BEFORE = ("asset_started", "output_moved", "fragment_opened", "asset_recorded", "metadata_written")
AFTER = ("committed", "report_written", "sealed")
"""Points after the commit: readers have the new versions."""


@dataclass(frozen=True)
class Cleanup:
    """Files that nothing refers to are removed, and versions older than some."""

    keep: int | None

    @classmethod
    def draw(cls, random: Random, world: World) -> Cleanup:
        return cls(random.choice((None, None, 1, 2)))

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        world = play.world
        keep = [] if self.keep is None else ["--keep-versions", str(self.keep)]
        answer = play.ok("cleanup", "--older-than", "0s", *keep, "--confirm")
        old = {new: name for name, new in world.names.items()}
        for one in answer["datasets"]:
            name = old.get(one["dataset"], one["dataset"])
            for version in one["old_versions_removed"]:
                newest = version > world.heads[name] - (self.keep or 1000)
                if newest or in_use(world, name, version):
                    raise Disagrees(f"{name} v{version} was removed, and is in use: {answer}")
                world.seen.pop((name, version), None)
                world.removed = True


@dataclass(frozen=True)
class RemoveRuns:
    """Folders of runs that nothing needs."""

    @classmethod
    def draw(cls, random: Random, world: World) -> RemoveRuns:
        return cls()

    def possible(self, world: World) -> bool:
        return True

    def do(self, play: Play) -> None:
        play.ok("runs", "rm", "--older-than", "0s", "--confirm")


@dataclass(frozen=True)
class Kill:
    """A run is killed at a named point; it is resumed, or nobody cares about it any more."""

    run: Run
    point: str
    resume: bool

    @classmethod
    def draw(cls, random: Random, world: World) -> Kill:
        point = random.choice((*BEFORE, *AFTER))
        return cls(Run.draw(random, world), point, random.random() < 0.7)

    def possible(self, world: World) -> bool:
        """One that is not resumed may have made results that count although nobody reads them:
        that is another run's business only where corrections are at stake."""
        run, trial = self.run, copy(world)
        if not run.possible(world) or run.limit(world) in world.rolled_back:
            return False
        try:
            trial.run(
                "", run.targets(), force=run.assets if run.force else (), limit=run.limit(world)
            )
        except NotReady:
            return False
        corrected = any(
            piece.replays or world.numbered[piece.result].corrections
            for name, day in run.targets()
            if (piece := world.current.get(name, {}).get(day))
        )
        invalid = any(target in world.invalid for target in run.targets())
        return self.resume or not (corrected or invalid or run.force)

    def do(self, play: Play) -> None:
        reply = play.said(*self.run.words(play.world), TALLYMAN_CRASH_AT=self.point)
        if reply.code == 0:  # it did not get to this point
            self.run.done(play, reply)
            return
        if reply.code != -9:
            raise Disagrees(f"expected to be killed: {reply}")
        if self.resume:
            self.run.done(play, play.said("resume", "latest"))
        elif self.point in AFTER:
            limit = self.run.limit(play.world)
            run = play.home.ok("runs", "--limit", "1")[0]["run_id"]
            play.world.run(run, self.run.targets(), limit=limit)
