"""The work of tasks in these tests: it waits until the test lets it go on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallyman.worker.child import Channel


def held(task: Mapping[str, Any], channel: Channel) -> None:
    """Say where it is, then wait for a file. Not for ever: a test that failed leaves none."""
    place = Path(task["config"]["place"])
    begun = place.with_suffix(".new")
    begun.write_text(str(os.getpid()))
    begun.rename(place.with_suffix(f".begun{task['attempt']}"))
    for _ in range(1200):
        if place.exists():
            return
        time.sleep(0.05)
