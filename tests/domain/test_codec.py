"""Values of our own classes as JSON, and back: by their annotations, and refused if they do not
fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tallyman.control.target.package import MadeTarget, TargetPackage
from tallyman.domain.account.fate import Fate
from tallyman.domain.codec import Unfit, of_plain, to_plain
from tallyman.domain.version.owner import Owner
from tallyman.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    id: UUID
    at: datetime
    home: Path
    fate: Fate
    share: float
    owner: Owner | None = None
    names: frozenset[str] = frozenset()
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    counts: Mapping[Fate, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    bound: int | float | str | None = None
    rest: Any = None


def everything(**more: Any) -> Everything:
    given: dict[str, Any] = {
        "id": UUID(int=1), "at": datetime(2026, 1, 1, tzinfo=UTC), "home": Path("/a"),
        "fate": Fate.ERROR, "share": 0.5, "owner": Owner("o", "p"), "names": frozenset("ba"),
        "places": {"a": ("f.py", 3)}, "counts": {Fate.PASSED: 2}, "bound": 1.5,
        "problems": (Problem("a", "b"),), "rest": {"a": [1, None, "x"]},
    }  # fmt: skip
    return Everything(**(given | more))


def sent(value: Any) -> Any:
    return json.loads(json.dumps(to_plain(value)))


def test_a_value_is_read_back() -> None:
    one = everything(owner=None, rest=None)
    assert of_plain(Everything, sent(one)) == one


def test_the_same_value_is_sent_as_the_same_text() -> None:
    assert sent(everything())["names"] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"new": 1}, "expected Everything, which has no 'new'"),
        ({"share": True}, "share: expected float, not bool"),
        ({"share": "1"}, "share: expected float, not str"),
        ({"id": "no id"}, "id: expected UUID"),
        ({"at": 3}, "at: expected datetime, not int"),
        ({"fate": "lost"}, "fate: expected Fate"),
        ({"owner": []}, "owner: expected dict, not list"),
        ({"owner": {"org": "o"}}, "owner: expected Owner with project"),
        ({"problems": [{"where": "a", "message": "b", "line": 1.5}]}, "problems.0.line: exp"),
        ({"places": {"a": ["f.py"]}}, "places.a: expected a list of 2"),
        ({"places": {"a": ["f.py", "3"]}}, "places.a.1: expected int"),
        ({"bound": []}, "bound: expected one of int, float, str"),
        ({"counts": {"lost": 1}}, "counts.lost: expected Fate"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Unfit, match=said):
        of_plain(Everything, sent(everything()) | change)


def test_a_secret_is_not_sent() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        to_plain({"key": object()})


@pytest.mark.parametrize("kind", [TargetPackage, MadeTarget])
def test_what_server_and_worker_send_each_other_can_be_read(kind: type) -> None:
    with pytest.raises(Unfit, match=f"{kind.__name__} with"):
        of_plain(kind, {})
