"""Every planted bug fails its asset before anything is published, and nothing else does."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tallyman.engine.evidence.kept import Kept
from tallyman.engine.evidence.recount import recount
from tallyman.engine.files.past_run import ledger_in
from tests.engine.conftest import Ran, Workshop
from tests.planted import project
from tests.planted.afterwards import double_row, kept_files, lose_row
from tests.planted.harness import Harness
from tests.planted.plants import ELSEWHERE, PLANTS, Plant
from tests.planted.seams import seams
from tests.world.scale import FULL, by_form, some

pytestmark = pytest.mark.timeout(900)  # one run of a hundred assets, each with a bug of its own

PLANS = (
    "rows",
    "both",
    "groups",
    "added_up",
    "judged",
    "regrouped",
    "unfolded",
    "children",
    "matches",
    "ranked",
    "worked",
    "touched",
    "divided",
    "parted",
)

TRACED = ("worked", "touched")


def _unchanged(rows: Any) -> Any:
    return rows


def _kind(plant: Plant) -> object:
    """In the small form one bug of each file of the engine that has seams, in the full form every
    bug."""
    return by_form(plant.seam.partition(":")[0], plant.asset)


OF_KINDS: dict[object, list[Plant]] = {}
for found in PLANTS:
    OF_KINDS.setdefault(_kind(found), []).append(found)
CHOSEN = [one for plants in OF_KINDS.values() for one in some(plants, 1)]
SOUND_PLANS = tuple(p for p in PLANS if FULL or p in {one.plan for one in CHOSEN})
MANY = by_form((), ("groups", "judged", "regrouped", "unfolded"))
SOUND = [
    # With keys few rows are written by Spark, with digests by this process.
    Plant("", plan, "sound", here=here, evidence=evidence, traced=plan in TRACED, many=many)
    for plan in SOUND_PLANS
    for many in (False, True)
    for evidence, here in (("keys", None), ("digest", _unchanged))
    # Where records stay rows their evidence is that of other plans.
    if FULL or evidence == "keys" or plan == "groups"
    if not many or (evidence == "keys" and plan in MANY)
]


def test_every_seam_of_the_engine_has_a_plant() -> None:
    planted = {plant.seam for plant in PLANTS}
    assert seams() == planted | set(ELSEWHERE)
    assert not planted & set(ELSEWHERE)
    assert len({plant.asset for plant in PLANTS}) == len(PLANTS) >= 20
    assert {plant.plan for plant in PLANTS} == set(PLANS)
    assert {_kind(plant) for plant in CHOSEN} == {_kind(plant) for plant in PLANTS}


@pytest.fixture(scope="module")
def planted(workshop: Callable[..., Workshop]) -> tuple[Ran, Harness]:
    """One run of all assets, each with its own bug."""
    shop = workshop(interpreted=True).pipeline(project.pipeline([*CHOSEN, *SOUND]))
    project.write(shop.home)
    harness = Harness({plant.asset: plant for plant in [*CHOSEN, *SOUND]})
    with pytest.MonkeyPatch.context() as patch:
        harness.install(patch, seams())
        return shop.run(jobs=4), harness


@pytest.mark.parametrize("plant", CHOSEN, ids=lambda plant: plant.asset)
def test_a_planted_bug_fails_the_asset(planted: tuple[Ran, Harness], plant: Plant) -> None:
    ran, harness = planted
    assert plant.asset in harness.fired, "the bug was never met"
    made = ran.asset(plant.asset)
    assert made.status == "failed", made
    # Without a file that was listed its reader cannot go on, and that is found first.
    codes = {"rows_unaccounted_for"}
    codes |= {"step_failed", "storage_failed", "trace_write_failure"} if plant.files else set()
    assert (made.error or {})["code"] in codes, made.error
    assert not (ran[plant.asset].folder / "output").exists()


@pytest.mark.parametrize("plant", SOUND, ids=lambda plant: plant.asset)
def test_an_asset_without_a_bug_balances(planted: tuple[Ran, Harness], plant: Plant) -> None:
    assert planted[0].asset(plant.asset).status == "success", planted[0].asset(plant.asset).error


def test_nothing_of_the_run_was_published(planted: tuple[Ran, Harness]) -> None:
    assert planted[0].result.status == "failed"
    assert set(planted[0].project.heads().values()) == {0}
    assert not planted[0].project.commits()


@pytest.mark.parametrize("plant", SOUND, ids=lambda plant: plant.asset)
def test_what_is_planted_afterwards_is_found_by_counting_again(
    planted: tuple[Ran, Harness], plant: Plant, tmp_path: Path
) -> None:
    made = planted[0][plant.asset]
    shutil.copytree(made.folder, tmp_path / "kept")
    kept = Kept(tmp_path / "kept", _never, limit=sys.maxsize)
    assert recount(ledger_in(made.folder), kept) == []
    files = list(kept_files(kept.folder))
    assert len(files) > 1
    for file in files:
        for harm in (lose_row, double_row):
            before = file.read_bytes()
            harm(file)
            assert recount(ledger_in(made.folder), kept), (
                f"{harm.__name__}: {file.relative_to(tmp_path)}"
            )
            file.write_bytes(before)


def _never() -> SparkSession:
    raise AssertionError("these files are counted without Spark")
