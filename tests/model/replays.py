"""Verbs about rejected records: replay them, corrected or not, and give them up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from tests.model.meaning import ASSETS, Record
from tests.model.play import Disagrees, Play, lines
from tests.model.state import Replayed, Target, World, records_of
from tests.model.verbs import some_record

REJECTING = [name for name, asset in ASSETS.items() if asset.source]


@dataclass(frozen=True)
class Replay:
    """Open rejections of one asset, of the run that has most of them: those that are corrected, or
    all as they are."""

    asset: str
    corrected: tuple[Record, ...]

    @classmethod
    def draw(cls, random: Random, world: World) -> Replay:
        name = random.choice(REJECTING)
        _, targets = chosen(world, name)
        keys = sorted((key, day) for (_, day), found in targets.items() for key in found)
        if not keys or random.random() < 0.2:
            return cls(name, ())
        some = random.sample(keys, random.randint(1, len(keys)))
        fixed = (some_record(random, key, day or "mon", bad=0.15) for key, day in some)
        return cls(name, tuple(fixed))

    def keys(self) -> frozenset[str]:
        return frozenset(record.id for record in self.corrected)

    def possible(self, world: World) -> bool:
        """Only a result that readers see, of the present definition, can be replayed; without
        corrections its records are read again."""
        _, targets = chosen(world, self.asset, self.keys())
        keys = {key for found in targets.values() for key in found}
        if world.limit in world.rolled_back:
            return False
        if not keys or not {r.id for r in self.corrected} <= keys:
            return False
        ids = {record.id for record in self.corrected}
        named = [target for target, found in targets.items() if not ids or found & ids]
        if any(t in world.invalid or not current(world, t) for t in named):
            return False
        again = not self.corrected or ASSETS[self.asset].combines
        return not again or all(unchanged(world, t) for t in named)

    def do(self, play: Play) -> None:
        run, targets = chosen(play.world, self.asset, self.keys())
        words = ["rejections", "replay", run, "--asset", self.asset]
        fixed = {record.id: record for record in self.corrected}
        if ASSETS[self.asset].by_day:
            # Days of the run that were made again since cannot be replayed.
            keys = sorted(fixed or {key for found in targets.values() for key in found})
            words += ["--where", "source_key IN ({})".format(", ".join(map(repr, keys)))]
        if self.corrected:
            play.write("fix.jsonl", lines(self.corrected))
            words += ["--with", "fix.jsonl"]
        answer = play.ok(*words)
        if answer["run"] is None:
            raise Disagrees(f"nothing was replayed: {play.log[-1]}\n{answer}")
        by = str(answer["run"]["run_id"])
        play.latest, play.read = by, {}
        for target, keys in targets.items():
            named = keys if not fixed else keys & set(fixed)
            if named:
                replayed(play.world, target, by, {k: fixed[k] for k in named if k in fixed}, named)


@dataclass(frozen=True)
class Discard:
    """Give up one open rejection, or all of an asset in a run."""

    asset: str
    key: str | None

    @classmethod
    def draw(cls, random: Random, world: World) -> Discard:
        name = random.choice(REJECTING)
        _, targets = chosen(world, name)
        keys = sorted(key for found in targets.values() for key in found)
        return cls(name, random.choice(keys) if keys and random.random() < 0.8 else None)

    def keys(self) -> frozenset[str]:
        return frozenset() if self.key is None else frozenset({self.key})

    def possible(self, world: World) -> bool:
        _, targets = chosen(world, self.asset, self.keys())
        keys = {key for found in targets.values() for key in found}
        return bool(keys) and (self.key is None or self.key in keys)

    def do(self, play: Play) -> None:
        run, targets = chosen(play.world, self.asset, self.keys())
        words = ["rejections", "discard", run, "--asset", self.asset, "--reason", "lost"]
        given = [] if self.key is None else ["--where", f"source_key = '{self.key}'"]
        play.ok(*words, *given)
        for target, keys in targets.items():
            wanted = keys if self.key is None else keys & {self.key}
            play.world.discarded |= {(run, target, key) for key in wanted}


def chosen(
    world: World, asset: str, keys: frozenset[str] = frozenset()
) -> tuple[str, dict[Target, set[str]]]:
    """The run with these open rejections, or with most of the asset, and all that it has."""
    found: dict[str, dict[Target, set[str]]] = {}
    for day in world.current.get(asset, {}):
        for key, run in world.open((asset, day)).items():
            found.setdefault(run, {}).setdefault((asset, day), set()).add(key)
    found = {run: t for run, t in found.items() if keys <= set().union(*t.values())}
    if not found:
        return "", {}
    run = max(sorted(found), key=lambda r: sum(map(len, found[r].values())))
    return run, found[run]


def current(world: World, target: Target) -> bool:
    """True if what readers see was made by the present definition."""
    result = world.numbered[world.current[target[0]][target[1]].result]
    return result.definition == world.definition(ASSETS[target[0]])


def unchanged(world: World, target: Target) -> bool:
    result = world.numbered[world.current[target[0]][target[1]].result]
    return result.inputs == (world.records(ASSETS[target[0]].source or "", target[1]),)


def replayed(
    world: World, target: Target, by: str, fixed: dict[str, Record], keys: Iterable[str]
) -> None:
    """Where records are combined, all are evaluated again, else those that were chosen."""
    asset, piece = ASSETS[target[0]], world.current[target[0]][target[1]]
    result = world.numbered[piece.result]
    if asset.combines:
        instead = {**result.corrections, **fixed}
        records = [instead.get(r.id, r) for r in records_of(result.inputs)]
        made = asset.make(records, day=target[1], limit=world.limit)
        new = world.add_result(asset, None, result.inputs, by, made, instead)
        for key in made.rejected:
            if (result.run, target, key) in world.discarded:
                world.discarded.add((by, target, key))
        world.results[target] = new
        world.current[asset.name] = {None: new.pieces[asset.name]}
        return
    read = [fixed.get(r.id, r) for r in records_of(result.inputs) if r.id in set(keys)]
    made = asset.make(read, day=target[1], limit=world.limit)
    known = {row[0] for row in piece.rows}
    adds = any(row[0] not in known for row in made.rows[asset.name])
    outcome = Replayed(run=by, passed={k: k not in made.rejected for k in keys}, rows=adds)
    result.replays.append(outcome)
    if not adds:
        return
    for name, rows in made.rows.items():
        if name == "parts_rejected":
            continue  # what the run rejected, until the asset is made again
        there = world.current[name]
        before = there[target[1]]
        kept = {row[0] for row in before.rows}
        more = {row: ids for row, ids in rows.items() if row[0] not in kept}
        after = replace(before, rows={**before.rows, **more}, replays=before.replays | {by})
        world.current[name] = {**there, target[1]: after}
