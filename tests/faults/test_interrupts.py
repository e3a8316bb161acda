"""A run stopped at the terminal, with a Spark of its own, says what was left and can go on."""

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
