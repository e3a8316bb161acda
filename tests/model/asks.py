"""Questions about rows and records: `why` and `where`, next to what the model says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tests.model.meaning import ASSETS, BOARD, PRODUCER
from tests.model.play import Disagrees, Play
from tests.model.state import World, rows_of

KEYS = {"per_day": "day", "day_sums": "day", "plog_sums": "day", "small_sums": "kind"}
KEYS |= {"by_kind": "kind", "board_sums": "kind"}
ASKED = [*(name for name in PRODUCER if name != "parts_rejected"), BOARD.name]


def why(play: Play, random: Random) -> None:
    """The source records of a row of a current version."""
    world = play.world
    rows = [(name, row) for name in ASKED for row in rows_of(world.current.get(name, {}))]
    if not rows:
        return
    name, row = random.choice(sorted(rows, key=str))
    column = KEYS.get(name, "id")
    words = ("why", world.shown(name), f"{column}={row[0]}", "--keys", "--limit", "0")
    home = play.board if name == BOARD.name else play.home
    answer = home.tallyman(*words)
    if answer.code:
        raise Disagrees(f"{' '.join(words)}: {answer}")
    found = {key for hop in answer.json["hops"] for key in _keys(hop)}
    wanted = rows_of(world.current[name])[row]
    ends = world.removed and "purged" in answer.stdout and found <= wanted
    if found != wanted and not ends:
        raise Disagrees(
            f"{' '.join(words)}:\n  the product: {sorted(found)}\n  the model:   {sorted(wanted)}"
            f"\n{answer}"
        )


def _keys(hop: Mapping[str, Any]) -> Iterator[str]:
    for read in hop["inputs"]:
        if read["kind"] == "source":
            yield from read.get("keys", ())
        for before in read.get("hops", ()):
            yield from _keys(before)


def where(play: Play, random: Random) -> None:
    """The rows of a record, in assets that read its source and in their readers."""
    world = play.world
    name = random.choice(sorted(world.files))
    if not world.files[name]:
        return
    source, key = name.partition("/")[0], random.choice(world.files[name]).id
    words = ("where", source, f"id={key}", "--limit", "0")
    answer = play.home.tallyman(*words)
    if answer.code:
        raise Disagrees(f"{' '.join(words)}: {answer}")
    found: dict[str, int] = {}
    _count(answer.json.get("became", []), found)
    for asset in ASSETS:
        wanted = sum(key in ids for ids in rows_of(world.current.get(asset, {})).values())
        if asset in found or ASSETS[asset].source == source:
            _compare(world, words, asset, found.get(asset, 0), wanted, answer)


def _count(became: list[dict[str, Any]], found: dict[str, int]) -> None:
    """Of an asset without a version, `where` shows the latest attempt: nobody reads its rows."""
    for one in became:
        rows = one.get("rows", 0) if "version" in one else 0
        found[one["asset"]] = found.get(one["asset"], 0) + rows
        _count(one.get("then", []), found)


def _compare(
    world: World, words: tuple[str, ...], asset: str, found: int, wanted: int, answer: object
) -> None:
    """A reader that has not read the present rows has none of the record, or those it read."""
    if found != wanted and not (ASSETS[asset].source is None and not found):
        raise Disagrees(
            f"{' '.join(words)}: rows in {asset}:\n  the product: {found}\n  the model:   {wanted}"
            f"\n{answer}"
        )
