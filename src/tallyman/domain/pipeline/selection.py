"""Selections: the assets that a command names. `x`, `+x`, `x+`, `+x+`, `tag:t`, `state:modified`;
commas and spaces unite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.errors import NotFound
from tallyman.errors.wording import nearest

Modified = Callable[[], Collection[str]]
"""A function that lists assets without a result of their current definition; called only for
`state:modified`.
"""


def select(pipeline: Pipeline, terms: Sequence[str], modified: Modified = lambda: ()) -> list[str]:
    """List the selected assets in the order they must run; all if nothing is named."""
    words = _words(terms)
    if not words:
        return pipeline.order()
    chosen = set().union(*(_matching(pipeline, word, modified) for word in words))
    return [name for name in pipeline.order() if name in chosen]


def named(pipeline: Pipeline, terms: Sequence[str]) -> set[str]:
    """List the assets that the terms name, without those that `+` adds; all if there are no
    terms.
    """
    words = [word.strip("+") for word in _words(terms)]
    return set(select(pipeline, words, lambda: pipeline.assets))


def find_asset(pipeline: Pipeline, name: str) -> Asset:
    if name not in pipeline.assets:
        raise NotFound("asset", name, nearest(name, list(pipeline.assets)))
    return pipeline.assets[name]


def _words(terms: Sequence[str]) -> list[str]:
    return [word for term in terms for word in term.replace(",", " ").split()]


def _matching(pipeline: Pipeline, word: str, modified: Modified) -> set[str]:
    name = word.strip("+")
    if name.startswith("state:"):
        if name != "state:modified":
            raise NotFound("state", name[6:], "modified")
        start = set(modified()) & set(pipeline.assets)
    elif name.startswith("tag:"):
        start = {a.name for a in pipeline.assets.values() if name[4:] in a.tags}
        known = sorted({tag for a in pipeline.assets.values() for tag in a.tags})
        if not start:
            raise NotFound("tag", name[4:], nearest(name[4:], known))
    else:
        start = {find_asset(pipeline, name).name}
    chosen = set(start)
    if word.startswith("+"):
        chosen |= _reach(start, {n: list(a.inputs) for n, a in pipeline.assets.items()})
    if word.endswith("+"):
        chosen |= _reach(start, _consumers(pipeline))
    return chosen & set(pipeline.assets)


def _reach(start: set[str], edges: dict[str, list[str]]) -> set[str]:
    found, todo = set(start), list(start)
    while todo:
        for following in edges.get(todo.pop(), []):
            if following not in found:
                found.add(following)
                todo.append(following)
    return found


def _consumers(pipeline: Pipeline) -> dict[str, list[str]]:
    consumers: dict[str, list[str]] = {}
    for item in pipeline.assets.values():
        for name in item.inputs:
            consumers.setdefault(name, []).append(item.name)
    return consumers
