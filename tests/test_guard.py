"""The guard around every test finds what one left changed, and takes it back for those after it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.guard import ProcessState


def test_what_is_left_changed_is_named_without_its_value_and_taken_back(tmp_path: Path) -> None:
    before = ProcessState.now()
    assert list(before.differences(ProcessState.now())) == []
    gone = next(name for name in os.environ if name in before.environment)
    here, gone_folder = Path.cwd(), tmp_path / "gone"
    gone_folder.mkdir()
    try:
        os.environ["LEFT_BEHIND"] = "hunter2"
        del os.environ[gone]
        os.chdir(gone_folder)
        gone_folder.rmdir()
        os.umask(before.umask ^ 0o070)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        found = list(before.differences(ProcessState.now()))
    finally:
        before.restore()
    environment = sorted(f"{name} in the environment" for name in ("LEFT_BEHIND", gone))
    assert found[:2] == environment
    assert [one.split(",")[0] for one in found[2:]] == [
        "the working directory",
        "the umask",
        "the handler of SIGUSR1",
    ]
    assert "hunter2" not in str(found)
    assert list(before.differences(ProcessState.now())) == []
    assert Path.cwd() == here
