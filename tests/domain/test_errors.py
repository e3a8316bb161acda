"""Every error has one text, of its own facts, and keeps both between processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import fields
from string import Formatter

from tallyman.errors import InputShrank, NothingToRead, TallymanError


def _all(kind: type[TallymanError]) -> Iterator[type[TallymanError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _all(each)


def test_a_text_is_a_format_of_the_facts_of_its_error() -> None:
    kinds = list(_all(TallymanError))
    assert len(kinds) > 90
    for kind in kinds:
        named = {name for _, name, _, _ in Formatter().parse(kind.text) if name}
        assert named <= {each.name for each in fields(kind)}, kind  # type: ignore[arg-type]
        assert kind.text or "__str__" in {**vars(kind), **vars(kind.__mro__[1])}, kind


def test_an_error_is_pickled_with_its_facts() -> None:
    for error in (InputShrank("a", "orders", 3, 9000), NothingToRead("d", 7, purged=True)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), vars(again), str(again)) == (type(error), vars(error), str(error))
