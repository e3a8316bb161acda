"""Every bug at the border between assets is found: by the gate, or else by `verify`."""

from __future__ import annotations

import pytest

from tests.border.plants import PUBLISHED, READ, RECORDED, REPLAYED, Plant, restores_another
from tests.border.project import TWO, Border, border, corrected, day
from tests.pipelines.conftest import NewPipeline
from tests.pipelines.conftest import new_pipeline as new_pipeline
from tests.world.home import Home
from tests.world.scale import some

GATE = {"other_than_published", "rows_unaccounted_for"}


@pytest.fixture(scope="module")
def made(new_pipeline: NewPipeline) -> Border:
    """Its commands publish nothing: each test finds what the others found."""
    return border(new_pipeline, "border")


@pytest.fixture(scope="module")
def changing(new_pipeline: NewPipeline) -> Border:
    return border(new_pipeline, "changing")


def run(made: Border, plant: Plant, *more: str) -> tuple[Home, list[str]]:
    """Return the pipeline of the plant, and the command that makes its asset again."""
    home = made.board if plant.asset == "board" else made.home
    if not more:
        home.ok("invalidate", plant.asset)
    split = ("-p", plant.partition) if plant.partition else ()
    return home, ["run", *plant.also, plant.asset, *split, *more]


@pytest.mark.parametrize("plant", some(READ, 6), ids=lambda plant: plant.name)
def test_another_input_than_was_published_is_refused(
    made: Border, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "own" in plant.name or "replaced" in plant.name:
        day(made.home, TWO, c=3, d=4, e=5)
    home, words = run(made, plant)
    before = home.heads()
    with monkeypatch.context() as patch:
        plant.plant(patch)
        reply = home.tallyman(*words)
    [failed] = [a for a in reply.json["assets"] if a["name"] == plant.asset]
    assert failed["error"]["code"] in GATE, reply
    assert home.heads() == before


@pytest.mark.parametrize("plant", some(REPLAYED, 1), ids=lambda plant: plant.name)
def test_other_records_than_were_chosen_are_not_replayed(
    made: Border, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made.home.heads()
    with monkeypatch.context() as patch:
        plant.plant(patch)
        reply = corrected(made.home, made.first, "x", 7)
    [outcome] = reply.json["outcomes"]
    assert outcome["ledger"]["error"]["code"] in {"not_replayable", "keys_repeat", *GATE}, reply
    assert made.home.heads() == before


@pytest.mark.parametrize("plant", some(PUBLISHED, 1), ids=lambda plant: plant.name)
def test_another_version_than_was_made_is_not_published(
    changing: Border, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, words = run(changing, plant, "--force")
    before = {name: home.rows(name) for name in home.heads()}
    with monkeypatch.context() as patch:
        plant.plant(patch)
        reply = home.tallyman(*words)
    assert reply.json["error"]["code"] == "version_not_whole", reply
    assert {name: home.rows(name) for name in home.heads()} == before


def test_a_rollback_to_other_rows_is_refused(
    changing: Border, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = changing.home.rows("good")
    with monkeypatch.context() as patch:
        restores_another(patch)
        reply = changing.home.tallyman("rollback", "good", "--to", "1")
    assert reply.json["error"]["code"] == "version_not_whole", reply
    assert changing.home.rows("good") == before


@pytest.mark.parametrize("plant", some(RECORDED, 2), ids=lambda plant: plant.name)
def test_a_wrong_record_of_what_was_read_is_found_by_verify(
    changing: Border, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, words = run(changing, plant)
    with monkeypatch.context() as patch:
        plant.plant(patch)
        found = home.ok(*words)["run_id"]
    reply = home.tallyman("verify", found)
    assert reply.code == 1, reply
    assert any("good" in reason for reason in reply.json["reasons"])


def test_without_a_bug_everything_is_published_and_verified(changing: Border) -> None:
    for plant in (READ[0], READ[12], READ[16], READ[18], READ[21]):
        home, words = run(changing, plant)
        done = home.ok(*words)
        assert home.ok("verify", done["run_id"], "--exact")["verified"]
