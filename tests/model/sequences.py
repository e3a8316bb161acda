"""Sequences of verbs: drawn, done, and made shorter when they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.model.asks import where, why
from tests.model.compare import look
from tests.model.edits import Apply, EditRule
from tests.model.play import Disagrees, Play, Verb
from tests.model.replays import Discard, Replay
from tests.model.state import World
from tests.model.tables import Change, Insert, Load
from tests.model.upkeep import Cleanup, Kill, RemoveRuns
from tests.model.verbs import DeleteFile, Run, RunBoard, WriteFile
from tests.model.versions import (
    Invalidate,
    Purge,
    Rename,
    Rollback,
    RollbackCommit,
    Snapshot,
)

NewPlay = Callable[[], Play]
DRAWN = {
    Run: 12, RunBoard: 2, WriteFile: 8, DeleteFile: 1, Replay: 8, Discard: 2,
    Rollback: 6, RollbackCommit: 3, Invalidate: 2, Snapshot: 1, Purge: 2, Rename: 1,
    EditRule: 2, Apply: 2, Insert: 1, Change: 2, Load: 1,
    Cleanup: 2, RemoveRuns: 1, Kill: 2,
}  # fmt: skip
"""How often each kind of verb is drawn."""
ASKED = 0.3
"""After how many verbs of all a row or a record is asked about: it takes 0.2 s."""


def drawn(random: Random, world: World) -> Verb:
    """A verb that is possible now."""
    while True:
        [kind] = random.choices(list(DRAWN), list(DRAWN.values()))
        verb: Verb = kind.draw(random, world)
        if verb.possible(world):
            return verb


def go(play: Play, length: int, seed: str) -> list[Verb]:
    """Do a random sequence; of one that fails, raise Failed."""
    random, done = Random(seed), list[Verb]()
    for _ in range(length):
        done.append(drawn(random, play.world))
        try:
            step(play, done[-1], Random(f"{seed} {len(done)}"))
        except Disagrees as wrong:
            raise Failed(seed, done, play.log, wrong) from None
    return done


def step(play: Play, verb: Verb, random: Random, *, asked: float = ASKED) -> None:
    verb.do(play)
    look(play, random)
    for _ in range(int(asked + random.random())):
        random.choice((why, where))(play, random)


class Failed(AssertionError):
    def __init__(
        self, seed: str, verbs: Sequence[Verb], log: Sequence[str], wrong: Disagrees
    ) -> None:
        self.verbs, self.wrong = tuple(verbs), wrong
        listed = "".join(f"    {verb},\n" for verb in verbs)
        commands = "\n".join(f"  {line}" for line in log)
        super().__init__(f"sequence {seed}\n{wrong}\n\n{commands}\n\nverbs = [\n{listed}]")


def fails(play: Play, verbs: Sequence[Verb], *, all_possible: bool = False) -> Failed | None:
    """Do the verbs that are possible, or all of them; None if product and model agree."""
    done: list[Verb] = []
    for number, verb in enumerate(verbs):
        if not (possible := verb.possible(play.world)) and not all_possible:
            continue
        done.append(verb)
        try:
            if not possible:
                raise Disagrees(f"{verb} is not possible here")
            step(play, verb, Random(number), asked=8 if number == len(verbs) - 1 else 1)
        except Disagrees as wrong:
            return Failed("of these verbs", done, play.log, wrong)
    return None


def shrunk(new: NewPlay, failed: Failed, tries: int = 60) -> Failed:
    """Leave out verbs, as many at once as possible, while it still fails."""
    size = max(1, len(failed.verbs) // 2)
    while size and tries:
        for start in range(len(failed.verbs) - 1, -1, -size):
            verbs = failed.verbs
            fewer = (*verbs[: max(0, start - size + 1)], *verbs[start + 1 :])
            tries -= 1
            if tries <= 0:
                return failed
            if (again := fails(new(), fewer)) is not None:
                failed = again
                break
        else:
            size //= 2
    return failed
