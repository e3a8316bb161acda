"""What is wrong with the wiring of a pipeline is said at once."""

import pytest

from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.errors import DefinitionError


def _wired(**inputs: str) -> Pipeline:
    return Pipeline.of(
        [
            Asset(name=name, function=lambda *frames: Frame("x"), inputs=tuple(read.split()))
            for name, read in inputs.items()
        ]
    )


def _cycles(**inputs: str) -> list[str]:
    with pytest.raises(DefinitionError) as raised:
        _wired(**inputs)
    assert raised.value.exit_code == 2
    return [problem.message for problem in raised.value.problems]


def test_a_cycle_is_named_with_its_path() -> None:
    assert _cycles(a="b", b="a") == ["cycle: a → b → a"]


def test_the_path_follows_the_data_from_the_asset_declared_first() -> None:
    assert _cycles(x="", b="a x", c="b", a="c", d="c") == ["cycle: b → c → a → b"]


def test_every_independent_cycle_is_reported_in_one_error() -> None:
    found = _cycles(a="b", b="a", c="d", d="e", e="c", f="f", g="a")

    assert sorted(found) == ["cycle: a → b → a", "cycle: c → e → d → c", "cycle: f → f"]


def test_cycles_and_unknown_inputs_are_reported_together() -> None:
    assert sorted(_cycles(a="b", b="a", c="bb")) == ["cycle: a → b → a", "unknown input 'bb'"]


def test_two_assets_cannot_produce_one_dataset() -> None:
    def asset(name: str, publish: str | bool) -> Asset:
        return Asset(name=name, function=lambda: Frame("x"), inputs=(), publish=publish)

    with pytest.raises(DefinitionError) as raised:
        Pipeline.of([asset("a", True), asset("b", "a"), asset("c", "shown"), asset("d", "shown")])
    assert [(p.where, p.message) for p in raised.value.problems] == [
        ("asset b", "its dataset 'a' already belongs to asset a"),
        ("asset d", "its dataset 'shown' already belongs to asset c"),
    ]
    Pipeline.of([asset("a", "b"), asset("b", "a")])  # names may cross
