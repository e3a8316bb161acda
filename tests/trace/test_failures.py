"""A step without its trace is not complete; what was complete can be read; a resume ends the same.

One project meets all of it in turn: a disk that fills up, then a kill, then nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.trace.recorded import Recorded
from tests.trace.test_general_ledger import expected, ids_of, names_in, records_in
from tests.world.home import Home
from tests.world.reply import Reply

RUN = "close"


@pytest.fixture(scope="module")
def home(ledger_home: Callable[[str], Home]) -> Home:
    return ledger_home("yaml")


def folder(home: Home) -> Path:
    [found] = home.path.glob(f"runs/*_{RUN}")
    return found


def recorded(home: Home) -> Recorded:
    return Recorded(folder(home) / "gl_close" / "trace")


def asset_of(home: Home) -> Any:
    report = json.loads((folder(home) / "processing_report.json").read_text())
    [asset] = report["assets"]
    return asset


@dataclass(frozen=True)
class Left:
    """What the command said, and what could be read then."""

    said: Reply
    asset: Any
    trace: Recorded
    told: Reply
    """What `tallyman trace` said to it."""
    published: Any


@pytest.fixture(scope="module")
def full(home: Home) -> Left:
    """The disk was full at the third step."""
    said = home.tallyman("run", "--run-id", RUN, TALLYMAN_CRASH_AT="trace_step@3:full")
    found = recorded(home)
    assert len(found.records) + len(found.baselines)  # read now: a resume moves it aside
    told, published = home.tallyman("trace", RUN), home.ok("versions", "gl_close")
    return Left(said, asset_of(home), found, told, published)


@pytest.fixture(scope="module")
def killed(home: Home, full: Left) -> tuple[Reply, Recorded, list[str]]:
    """And a resume was killed at the same place."""
    said = home.tallyman("resume", RUN, TALLYMAN_CRASH_AT="trace_step@3")
    found = Recorded(folder(home) / ".staging" / "2" / "gl_close" / "trace")
    assert len(found.records) + len(found.baselines)
    return said, found, sorted(path.name for path in found.folder.iterdir())


@pytest.fixture(scope="module")
def resumed(home: Home, killed: object) -> Any:
    return home.ok("resume", RUN)


def test_a_full_disk_fails_the_run_at_the_step(full: Left) -> None:
    assert full.said.code == 1, full.said
    assert (full.said.json["status"], full.asset["status"]) == ("failed", "failed")
    assert full.asset["last_completed_operation"] == 20
    assert full.asset["error"]["operation_order"] == 30
    assert full.asset["error"]["message"].startswith("TraceWriteFailure"), full.asset
    assert full.published == []


def test_the_steps_before_a_failure_can_be_read(full: Left) -> None:
    assert records_in(full.trace) == expected(20)
    assert (len(full.trace.records), len(full.trace.baselines)) == (12, 6)
    assert full.told.code == 0, full.told
    [target] = full.told.json["assets"]
    shown = {step["seq"]: (step["updated"], step["complete"]) for step in target["steps"]}
    assert shown[20] == (6, True)
    assert shown[30] == (0, False)


def test_a_kill_leaves_whole_steps_and_nothing_else(
    full: Left, killed: tuple[Reply, Recorded, list[str]]
) -> None:
    said, trace, left = killed
    assert said.code == -9, said
    assert left == ["operation_seq=10", "operation_seq=20", "steps.json"]
    assert trace.records == full.trace.records
    assert trace.baselines == full.trace.baselines


def test_a_resume_ends_with_the_trace_of_a_run_that_never_failed(
    home: Home, full: Left, resumed: Any
) -> None:
    assert resumed["status"] == "success", resumed
    found = recorded(home)
    assert records_in(found) == expected()
    assert len(found.baselines) == 7
    # The rows are the same rows as before the failure, by the ids that follow from the run.
    assert names_in(full.trace).items() <= names_in(found).items()
    assert ids_of(found) == names_in(found)
    assert asset_of(home)["last_completed_operation"] == 80
