"""Every planted bug fails its asset before anything is published, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.conftest import Ran, Workshop
from tests.planted import project
from tests.planted.harness import Harness
from tests.planted.plants import ELSEWHERE, PLANTS, Plant
from tests.planted.seams import seams

pytestmark = pytest.mark.timeout(900)  # one run of a hundred assets, each with a bug of its own

PLANS = (
    "rows",
    "both",
    "groups",
    "judged",
    "regrouped",
    "children",
    "matches",
    "ranked",
    "worked",
)
SOUND = [
    Plant("", plan, "sound", evidence=evidence, traced=plan == "worked")
    for plan in PLANS
    for evidence in ("keys", "digest")
]


def test_every_seam_of_the_engine_has_a_plant() -> None:
    planted = {plant.seam for plant in PLANTS}
    assert seams() == planted | set(ELSEWHERE)
    assert not planted & set(ELSEWHERE)
    assert len({plant.asset for plant in PLANTS}) == len(PLANTS) >= 20


@pytest.fixture(scope="module")
def planted(workshop: Callable[..., Workshop]) -> tuple[Ran, Harness]:
    """One run of all assets, each with its own bug."""
    shop = workshop(interpreted=True).pipeline(project.pipeline([*PLANTS, *SOUND]))
    project.write(shop.home)
    harness = Harness({plant.asset: plant for plant in PLANTS})
    with pytest.MonkeyPatch.context() as patch:
        harness.install(patch, seams())
        return shop.run(jobs=4), harness


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.asset)
def test_a_planted_bug_fails_the_asset(planted: tuple[Ran, Harness], plant: Plant) -> None:
    ran, harness = planted
    assert plant.asset in harness.fired, "the bug was never met"
    made = ran.asset(plant.asset)
    assert made.status == "failed", made
    # Without a file that it has listed Spark cannot go on, and that is found first.
    codes = {"rows_unaccounted_for", *(["step_failed"] if plant.files else [])}
    assert (made.error or {})["code"] in codes, made.error
    assert not (ran[plant.asset].folder / "output").exists()


@pytest.mark.parametrize("plant", SOUND, ids=lambda plant: plant.asset)
def test_an_asset_without_a_bug_balances(planted: tuple[Ran, Harness], plant: Plant) -> None:
    assert planted[0].asset(plant.asset).status == "success", planted[0].asset(plant.asset).error


def test_nothing_of_the_run_was_published(planted: tuple[Ran, Harness]) -> None:
    assert planted[0].result.status == "failed"
    assert set(planted[0].project.heads().values()) == {0}
    assert not planted[0].project.commits()
