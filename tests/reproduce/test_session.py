"""The Spark session of a project after a reproduction in Python, and one that was up before."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tallyman.project import Project
from tests.forked import Running
from tests.world.numbers import NumbersHome

DAY = "2025-01-01"
SHUFFLE = "spark.sql.shuffle.partitions"
ZONE = "spark.sql.session.timeZone"


@pytest.fixture(scope="module")
def home(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    """Its run had other settings than the project has now."""
    made = new_home().numbers(DAY, 1, 2, 3)
    settings = ("--spark-conf", f"{SHUFFLE}=7", "--spark-conf", f"{ZONE}=Asia/Tokyo")
    made.ok("run", "+doubled", "--partition", DAY, "--run-id", "first", *settings)
    return made


def _reproduce() -> None:
    """Tells of settings before, meanwhile and after; then a run of today, and its session."""
    with Project.open() as project:

        def seen() -> list[str | None]:
            return [project.spark.conf.get(name, None) for name in (SHUFFLE, ZONE)]

        def listen(_target: str, phase: str, _again: object) -> None:
            if phase == "comparing":
                meanwhile.append(seen())

        meanwhile: list[list[str | None]] = []
        before = seen()
        found = project.reproduce("first", listen=listen)
        after = seen()
        run = project.run("+doubled", partition=DAY, force=True)
        told = {
            "before": before,
            "meanwhile": meanwhile,
            "after": after,
            "result": found.to_json(),
            "run": run.status.value,
        }
    sys.stdout.write(json.dumps(told))


def reproduced(home: NumbersHome) -> Any:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}
    code, out, err = Running(home.path, kept, _reproduce).wait()
    assert code == 0, err
    return json.loads(out)


def test_settings_of_a_past_run_hold_while_it_is_made_again_and_no_longer(
    home: NumbersHome,
) -> None:
    found = reproduced(home)
    assert found["meanwhile"] == [["7", "Asia/Tokyo"]] * 2
    assert found["result"]["verdict"] == "REPRODUCED"
    assert found["result"]["not_applied"] == []
    assert found["after"][1] == "UTC"
    assert found["after"][0] != "7"
    assert found["before"] == found["after"]
    assert found["run"] == "success"
