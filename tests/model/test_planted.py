"""The model finds bugs that are planted between assets, and knows none of them."""

from __future__ import annotations

import pytest

from tests.border.plants import PUBLISHED, READ, RECORDED, REPLAYED
from tests.model.conftest import Stage
from tests.model.meaning import Record
from tests.model.play import Verb
from tests.model.replays import Replay
from tests.model.sequences import fails
from tests.model.tables import Change, Insert
from tests.model.verbs import Run, RunBoard, WriteFile
from tests.model.versions import Rollback
from tests.world.scale import some

BAD, FIXED = (Record("tue-a9", "tue", "x", n) for n in (-1, 9))
OTHER = Record("tue-a8", "tue", "y", 5)
READERS = Run(("per_day", "labelled"), (), force=True)
TOUR: list[Verb] = [
    WriteFile("raw/tue/a.jsonl", (OTHER, BAD)),
    Run(("good",), ("tue",), after=True),
    Replay("good", (FIXED,)),
    Insert((("kinds", ("z", "zed")),)),
    Change("kinds", ("x", "ax"), delete=False),
    READERS,
    RunBoard(force=True),
    Run(("good",), ("mon", "tue"), after=True),
    Rollback("good", 1),
    READERS,
    Run(("good", "plog"), ("tue",), after=True),
]
"""Most of what a person does on a day."""
PLANTS = {plant.name: plant for plant in (*READ, *REPLAYED, *PUBLISHED, *RECORDED)}


def test_without_a_bug_product_and_model_agree(stage: Stage) -> None:
    if (failed := fails(stage.new(), TOUR, all_possible=True)) is not None:
        raise failed


@pytest.mark.parametrize("name", some(list(PLANTS), 2))
def test_a_planted_bug_is_found(stage: Stage, name: str) -> None:
    play = stage.new()
    with pytest.MonkeyPatch.context() as patch:
        PLANTS[name].plant(patch)
        assert fails(play, TOUR) is not None
