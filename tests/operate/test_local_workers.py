"""What a server knows of workers: those that it keeps at work, and those that call it."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tallyman.domain.version.owner import Owner
from tallyman.server import local_workers
from tallyman.server.local_workers import LocalWorkers
from tallyman.server.presence import Presence
from tallyman.settings import Secret
from tests.world.waiting import wait_until


def test_a_worker_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_workers, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(local_workers, "LONGEST_PAUSE_S", 0.01)
    program, came = tmp_path / "program", tmp_path / "came"
    workers = LocalWorkers([str(program)], Secret("tmw_x"), 1, {"PATH": "/usr/bin:/bin"})
    workers.start()
    try:
        wait_until(lambda: "worker 1 could not be started" in caplog.text)
        new = tmp_path / "new"
        new.write_text(f"#!/bin/sh\ntouch '{came}'\nexec sleep 600\n")
        new.chmod(0o700)
        new.rename(program)
        wait_until(came.exists)
    finally:
        workers.kill()


def test_a_server_remembers_of_each_place_only_its_last_task() -> None:
    presence, owner = Presence(), Owner("default", "shop")
    tasks = [uuid4() for _ in range(1000)]
    for task in tasks:
        presence.claims(owner, "w/host-1-0", task)
        presence.beats(owner, task)
    assert presence.counts() == {str(owner): 1}
    assert presence.tasks == [tasks[-1]]
    presence.claims(owner, "w/host-1-0")
    assert presence.tasks == []
