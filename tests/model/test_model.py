"""Random sequences of commands: after each, readers see what the model says."""

from __future__ import annotations

import os
import time

import pytest

from tests.model.conftest import Stage
from tests.model.sequences import Failed, go, shrunk
from tests.world.scale import TURN, by_form

SEQUENCES = int(os.environ.get("SEQ", by_form(40, 80, 3_000)))
LENGTH = 12
SECONDS = by_form(80, 200, 10**6)


import sys
if os.environ.get("PROF"):
    sys.path.insert(0,"/tmp")
    import prof
    from tests.model import sequences, compare, conftest
    from tests.model.play import Play
    prof.wrap(sequences,"look"); prof.wrap(compare,"_look_at_run"); prof.wrap(conftest.Stage,"new"); prof.wrap(conftest.Stage,"clear")
    prof.wrap(Play,"said",lambda p,*w,**k: w[0]+(" "+w[1] if w[0]=="rejections" else "")+(" KILL" if k else ""))
    import atexit
    def show():
        for k,(n,t) in sorted(prof.T.items(), key=lambda x:-x[1][1]): print(f"{k:30s} {n:5d} {t:8.1f} {t/n:.3f}")

@pytest.mark.timeout(5400)
def test_random_sequences_leave_readers_right(stage: Stage) -> None:
    began, verbs = time.monotonic(), 0
    for number in range(SEQUENCES):
        if time.monotonic() - began > SECONDS:
            break
        try:
            verbs += len(go(stage.new(), LENGTH, f"{TURN} {number}"))
        except Failed as failed:
            raise shrunk(stage.new, failed) from None
    if os.environ.get("PROF"): show()
    print(f"{number + 1} sequences, {verbs} verbs, {time.monotonic() - began:.1f} s")
