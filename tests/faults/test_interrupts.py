"""A run that is killed or interrupted leaves a folder that says so, and stands in nobody's way."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.faults.conftest import start, tallyman
from tests.spark_servers import wait_until


def _wait_for(pattern: str, project: Path, running: subprocess.Popen[str]) -> Path:
    wait_until(lambda: any((project / "runs").glob(pattern)) or running.poll() is not None)
    return next((project / "runs").glob(pattern))


def test_a_killed_run_is_recognisably_unfinished_and_the_next_one_succeeds(project: Path) -> None:
    running = start(project, "run", "--run-id", "killed")
    _wait_for("*_killed/.staging/*", project, running)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()

    assert not any((project / "runs").glob("*_killed/*/output"))
    _, runs = tallyman(project, "runs")
    assert [(run["run_id"], run["status"]) for run in runs] == [("killed", "interrupted")]
    code, verdict = tallyman(project, "verify", "killed")
    assert code == 1
    assert not verdict["balanced"]

    code, result = tallyman(project, "run")
    assert (code, result["status"]) == (0, "success")


def test_ctrl_c_says_what_was_left_and_exits_130(project: Path) -> None:
    running = start(project, "run", "--run-id", "stopped")
    _wait_for("*_stopped/.staging/*", project, running)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, (out, err)
    assert "interrupted" in err
    assert "tallyman resume stopped" in err
    assert not any((project / "runs").glob("*_stopped/*/output"))
    _, shown = tallyman(project, "show", "stopped")
    assert (shown["status"], shown["assets"][0]["status"]) == ("canceled", "canceled")

    code, result = tallyman(project, "resume", "stopped")
    assert (code, result["status"], result["run_id"]) == (0, "success", "stopped")
