"""PySpark's mode as projects enter and leave it; no session is needed to see it."""

import os
from collections.abc import Iterator

import pytest

from tallyman.engine.spark.mode import ENABLED, SparkMode

CONNECTED, LOCAL = "sc://localhost:1", "local[2]"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(SparkMode, "_entered", [])
    monkeypatch.setattr(SparkMode, "_ours", None)
    yield
    os.environ.pop(ENABLED, None)


def test_the_mode_of_a_project_that_is_still_open_comes_back() -> None:
    first, second = SparkMode(CONNECTED), SparkMode(LOCAL)
    first.enter()
    second.enter()
    assert ENABLED not in os.environ
    second.leave()
    assert os.environ[ENABLED] == "1"
    first.leave()
    assert ENABLED not in os.environ


def test_what_the_process_changed_in_between_stays_when_a_project_is_closed() -> None:
    still_open, second = SparkMode(CONNECTED), SparkMode(CONNECTED)
    still_open.enter()
    del os.environ[ENABLED]
    second.enter()
    second.leave()
    assert ENABLED not in os.environ
    still_open.enter()
    assert os.environ[ENABLED] == "1"
