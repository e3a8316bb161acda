"""Random sequences of commands: after each, readers see what the model says.

A verb takes 0.05 s, a run 0.4 s for each target that it makes. So the small form plays as many
sequences as fit into its time, the full form all 3,000.
"""

from __future__ import annotations

import time

import pytest

from tests.model.conftest import Stage
from tests.model.sequences import Failed, go, shrunk
from tests.world.scale import TURN, by_form

SEQUENCES, VERBS = by_form(40, 3_000), 12
SECONDS = by_form(20, 6 * 3600)


@pytest.mark.timeout(8 * 3600)
def test_after_each_of_some_random_commands_readers_see_what_they_must(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    began, sequences, verbs = time.monotonic(), 0, 0
    while sequences < SEQUENCES and time.monotonic() - began < SECONDS:
        try:
            verbs += len(go(stage.new(), VERBS, f"{TURN} {sequences}"))
        except Failed as failed:
            raise shrunk(stage.new, failed) from None
        sequences += 1
    with capsys.disabled():
        told = f"{sequences} sequences, {verbs} verbs, {time.monotonic() - began:.0f} s"
        print(f"\n{told}")  # noqa: T201
