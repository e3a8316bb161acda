"""The look after each verb: what the product says, next to what the model says."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.model.meaning import BOARD, Row, Rows
from tests.model.play import Disagrees, Play
from tests.model.state import Committed, Content, rows_of

REJECTIONS = ("parts_rejected",)


def look(play: Play, random: Random) -> None:
    """Compare the rows of every dataset, an older version, and the run that was just made."""
    old = {new: name for name, new in play.world.names.items()}
    heads = {old.get(name, name): at for name, at in play.home.heads().items() if at}
    own = {name: at for name, at in play.world.current.items() if name != BOARD.name}
    _same("datasets with a version", set(heads), set(own))
    if BOARD.name in play.world.current:
        wanted = expected(play.world.current[BOARD.name])
        _same(f"rows of {BOARD.name}", play.board.rows(BOARD.name), wanted)
    for name, content in own.items():
        _same(f"rows of {name} v{heads[name]}", read(play, name), expected(content))
        before = play.world.seen.get((name, heads[name]), content)
        _same(f"{name} v{heads[name]}, which was seen before", expected(before), expected(content))
        play.world.seen[name, heads[name]] = content
    if heads != play.world.heads:
        play.world.heads = heads
        commit = play.home.ok("commits", "--limit", "1")[0]["id"]
        play.world.commits.append(Committed(commit, heads, play.world.active))
    active = play.world.active
    if active is not None and active not in play.world.hashes:
        found = play.home.ok("pipeline-versions")["pipeline"]["active"]
        play.world.hashes[active] = found
    for alias, at in play.world.snapshots.items():
        content = play.world.seen[at]
        _same(f"rows of {alias}, which is {at}", read(play, at[0], alias=alias), expected(content))
    name, version = random.choice(sorted(play.world.seen)) if play.world.seen else ("", 0)
    if name:
        then = expected(play.world.seen[name, version])
        _same(f"rows of {name} v{version}, an earlier version", read(play, name, version), then)
    if play.latest:
        _look_at_run(play, play.latest)
        play.latest = None


def read(play: Play, name: str, version: int | None = None, alias: str = "") -> list[Row]:
    rows = play.home.rows(alias or play.world.shown(name), version)
    return sorted((row[1],) for row in rows) if name in REJECTIONS else rows


def expected(content: Content) -> list[Row]:
    return ordered(rows_of(content))


def ordered(rows: Rows | Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(value) for value in row])


def _look_at_run(play: Play, run: str) -> None:
    home = play.board if (BOARD.name, None) in play.read else play.home
    shown = home.ok("show", run)
    for made in shown["assets"]:
        if made["status"] == "success":
            target = (made["name"], made["partition"])
            wanted = play.read.get(target, made["records_in"])
            _same(f"records that {target} of {run} read", made["records_in"], wanted)
            _same(f"unaccounted records of {target}", made["unaccounted"], 0)
    verified = home.tallyman("verify", run)
    if verified.code:
        raise Disagrees(f"verify {run}: {verified}")


def _same(what: str, found: object, wanted: object) -> None:
    if isinstance(found, list) and isinstance(wanted, list):
        found, wanted = ordered(found), ordered(wanted)
    if found != wanted:
        raise Disagrees(f"{what}:\n  the product: {found}\n  the model:   {wanted}")
