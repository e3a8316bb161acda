"""Which worker runs which tests, and in which order: the longest first, by what they took before.

`tests/durations.json` holds the seconds of each file, or of a folder whose files share a run, that
took long, as a run with TALLYMAN_DURATIONS=record took them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

DURATIONS = Path(__file__).with_name("durations.json")
GROWN = 1.5
"""A file that takes so many times what it took is named at the end."""
NOTICED = 5.0
"""Seconds below which a file is too short to be listed: it may run at the end."""

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


def recorded() -> dict[str, float]:
    return dict(json.loads(DURATIONS.read_text()))


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by what their group took: a long one at the end would leave a worker idle."""
    known = recorded()
    items.sort(key=lambda item: -known.get(group_of(item.nodeid), 0))


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
        f"{file}: {now[file]:.0f} s, recorded {before.get(file, 0):.0f} s"
        for file in now
        if now[file] > max(2 * NOTICED, GROWN * before.get(file, 0))
    ]


def record(now: Mapping[str, float]) -> None:
    """Write what took long; files that did not run keep what they have."""
    known = {file: one for file, one in recorded().items() if Path(file).exists()} | now
    long = {file: one for file, one in sorted(known.items()) if one >= NOTICED}
    DURATIONS.write_text(json.dumps(long, indent=1) + "\n")
