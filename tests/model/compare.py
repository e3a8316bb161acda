"""The look after each verb: what the product says, next to what the model says."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.model.meaning import Row, Rows
from tests.model.play import Disagrees, Play
from tests.model.state import Content, rows_of

REJECTIONS = ("parts_rejected",)


def look(play: Play, random: Random) -> None:
    """Compare the rows of every dataset, an older version, and the run that was just made."""
    heads = {name: at for name, at in play.home.heads().items() if at}
    _same("datasets with a version", set(heads), set(play.world.current))
    for name, content in play.world.current.items():
        _same(f"rows of {name} v{heads[name]}", read(play, name), expected(content))
        before = play.world.seen.get((name, heads[name]), content)
        _same(f"{name} v{heads[name]}, which was seen before", expected(before), expected(content))
        play.world.seen[name, heads[name]] = content
    play.world.heads = heads
    name, version = random.choice(sorted(play.world.seen)) if play.world.seen else ("", 0)
    if name:
        then = expected(play.world.seen[name, version])
        _same(f"rows of {name} v{version}, an earlier version", read(play, name, version), then)
    if play.latest:
        _look_at_run(play, play.latest)
        play.latest = None


def read(play: Play, name: str, version: int | None = None) -> list[Row]:
    rows = play.home.rows(name, version)
    return sorted((row[1],) for row in rows) if name in REJECTIONS else rows


def expected(content: Content) -> list[Row]:
    return ordered(rows_of(content))


def ordered(rows: Rows | Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(value) for value in row])


def _look_at_run(play: Play, run: str) -> None:
    shown = play.home.ok("show", run)
    for made in shown["assets"]:
        if made["status"] == "success":
            target = (made["name"], made["partition"])
            wanted = play.read.get(target, made["records_in"])
            _same(f"records that {target} of {run} read", made["records_in"], wanted)
            _same(f"unaccounted records of {target}", made["unaccounted"], 0)
    verified = play.home.tallyman("verify", run)
    if verified.code:
        raise Disagrees(f"verify {run}: {verified}")


def _same(what: str, found: object, wanted: object) -> None:
    if isinstance(found, list) and isinstance(wanted, list):
        found, wanted = ordered(found), ordered(wanted)
    if found != wanted:
        raise Disagrees(f"{what}:\n  the product: {found}\n  the model:   {wanted}")

