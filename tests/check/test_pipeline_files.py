"""A pipeline file that loops, or whose assets have names of ours; what else files do to the process
that compiles them is in tests/compiled/test_hostile.py."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.dispositions import at_a_terminal
from tests.world.home import Home

DECLARED = """
import tallyman as tm
tm.source("s", "data/s.jsonl", schema="id int", key="id")
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "tallyman.yaml").write_text("name: files\n")
    (tmp_path / "pipelines").mkdir()
    return Home(tmp_path)


@pytest.mark.parametrize(("inside", "named"), [("", "pipelines/p.py"), ("    ", "pipelines/p.py")])
def test_a_file_that_loops_is_named_when_it_is_interrupted(
    home: Home, inside: str, named: str
) -> None:
    mark = home.path / "began"
    head = f"{DECLARED}\n@tm.asset\ndef a(s):\n" if inside else ""
    loop = f"open({str(mark)!r}, 'w').close()\n{inside}while True: pass\n"
    home.pipeline(f"{head}{inside}{loop}")
    with at_a_terminal():
        running = home.installed("check", "--no-spark")
    try:
        until = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        raise
    assert running.returncode == 130
    assert "interrupted while " in err
    assert named in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    "name", ["ledger.json", "Lineage", "attempts", "SEAL.json", "manifest.json"]
)
def test_an_asset_cannot_be_named_like_a_file_of_the_run_folder(home: Home, name: str) -> None:
    text = f"{DECLARED}\n@tm.asset(name={name!r}, publish='fine')\ndef a(s):\n    return s\n"
    text += "\n@tm.asset(name='config.json', publish='fine_too')\ndef b(s):\n    return s\n"
    reply = home.pipeline(text).tallyman("run")
    assert reply.code == 2, reply
    found = [problem["where"] for problem in reply.json["error"]["problems"]]
    assert found == [f"asset {name}", "asset config.json"]
    assert "of every run folder" in reply.stdout
    assert not (home.path / ".tallyman").exists()
