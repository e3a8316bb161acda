"""Which worker runs which tests, and in which order: the longest first, by what they took before.

`tests/durations.json` holds, for the default form and for the wide one, the seconds of each file,
or of a folder whose files share a run, as a run with TALLYMAN_DURATIONS=record took them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.world.scale import WIDE

DURATIONS = Path(__file__).with_name("durations.json")
FORM = "wide" if WIDE else "default"
GROWN = 1.5
"""A file that takes so many times what it took is named at the end."""
NOTICED = 5.0
"""Seconds below which a file is too short to be judged."""

# Folders whose files share one run stay in one worker: each worker would make it again.
TOGETHER = ("faults", "walk", "report", "seals", "damage", "oracle")

OWN_SPARK = (
    "tests/compiled/test_columns.py",
    "tests/differential/",
    "tests/engine/",
    "tests/planted/",
    "tests/testing/",
    "tests/trace/",
)
"""Tests with a Spark in their own process."""


def group_of(nodeid: str) -> str:
    """Return the file of a test, or its folder where the files belong together."""
    file = nodeid.partition("::")[0]
    folder = Path(file).parent
    return str(folder) if folder.name in TOGETHER else file


def recorded(form: str = FORM) -> dict[str, float]:
    return dict(json.loads(DURATIONS.read_text()).get(form, {})) if DURATIONS.exists() else {}


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by what their group took: a long one at the end would leave a worker idle."""
    known = recorded("wide") | recorded()
    # A new file might be long.
    items.sort(key=lambda item: -known.get(group_of(item.nodeid), float("inf")))


class ByGroup(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give the tests with a Spark of their own to one worker, and the others to the others, as
        long as there are such: a Spark takes seconds to start and a minute until it is fast."""
        mine = node is self.nodes[0]
        for scope in self.workqueue:
            if scope.startswith(OWN_SPARK) is mine:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def taken(reports: Iterable[pytest.TestReport]) -> dict[str, float]:
    """Add up what each group took, with its fixtures: any of its files may be the first, and pay
    for what they share."""
    seconds = Counter[str]()
    for report in reports:
        seconds[group_of(report.nodeid)] += report.duration
    return {file: round(one, 1) for file, one in sorted(seconds.items())}


def grown(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    return [
        f"{file}: {now[file]:.0f} s, recorded {before[file]:.0f} s"
        for file in now
        if file in before and now[file] > max(NOTICED, GROWN * before[file])
    ]


def record(now: Mapping[str, float]) -> None:
    """Write what was taken, with the machine; files that did not run keep what they have."""
    known = {form: recorded(form) for form in ("default", "wide")}
    known[FORM] |= now
    kept = {
        form: {f: s for f, s in sorted(known[form].items()) if Path(f).exists()} for form in known
    }
    DURATIONS.write_text(json.dumps({"cores": os.cpu_count(), **kept}, indent=1) + "\n")
