"""Too many errors halt a run: the rejections are kept, nothing is published."""

from collections import Counter

import pytest

MANY = 58_300
"""With 110 broken records: `strict` tolerates 100."""


@pytest.fixture
def finished(airline):
    """Turn a reply of `tallyman run` in some project into something that can be read."""
    return lambda project, reply: type(airline)(project, reply.json)


def published_files(run):
    return sorted((run.asset / "output").rglob("*.parquet"))


def why_halted(reply):
    [asset] = reply.json["assets"]
    return tuple(asset["error"][fact] for fact in ("reason", "error_count", "threshold"))


def test_by_default_660_errors_do_not_stop_the_run(airline):
    assert airline.reply["status"] == "success"
    assert len(published_files(airline)) > 0


def test_strict_thresholds_halt_the_run_and_keep_every_rejection(
    airline_project, scenario, tallyman, finished
):
    expected, project = scenario(MANY), airline_project(MANY)
    reply = tallyman(project, "run", "--thresholds", "strict")
    assert reply.code == 3, str(reply)
    assert reply.json["status"] == "halted"
    assert why_halted(reply) == ("AbsoluteCount", 110, 100)
    run = finished(project, reply)
    assert Counter(row["error_type"] for row in run.rejections) == expected.rejections_by_type
    assert len({row["source_key"] for row in run.rejections}) == expected.fates["ERROR"] == 110
    assert published_files(run) == []


@pytest.mark.parametrize("thresholds", ["lenient", "percentage=1.5", "absolute=many"])
def test_a_threshold_that_makes_no_sense_is_refused(airline_project, tallyman, thresholds):
    project = airline_project(100)
    reply = tallyman(project, "run", "--thresholds", thresholds)
    assert reply.code == 2, str(reply)
    assert not (project / "runs").exists()
