"""Whatever a pipeline file does when it is read, a command ends with an error that names it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.dispositions import at_a_terminal
from tests.world.home import Home
from tests.world.scale import some

DECLARED = """
import tallyman as tm
tm.source("s", "data/s.jsonl", schema="id int", key="id")
"""
FILES = {
    "exits": b"import sys\nsys.exit()\n",
    "exits with 0": b"raise SystemExit(0)\n",
    "exits with a text": b"raise SystemExit('bye')\n",
    "quits": b"quit()\n",
    "base exception": b"raise BaseException('strange')\n",
    "own base exception": b"class E(BaseException): pass\nraise E()\n",
    "generator exit": b"raise GeneratorExit\n",
    "recursion": b"def f(): return f()\nf()\n",
    "deep expression": b"x = " + b"(" * 5000 + b")" * 5000 + b"\n",
    "deep operators": b"x = " + b"-" * 100_000 + b"1\n",
    "syntax": b"def (:\n",
    "null bytes": b"x = 1\x00\n",
    "not utf-8": b"x = '\xff\xfe'\n",
    "unknown encoding": b"# -*- coding: nonsense -*-\n",
    "division": b"1 / 0\n",
    "odd text": b"class E(Exception):\n    def __str__(self): return 1\nraise E\n",
    "import": b"import no_such_module_at_all\n",
}
IN_A_FUNCTION = {
    "exits": "import sys\n    sys.exit(0)",
    "base exception": "raise BaseException('strange')",
    "recursion": "return a(s)",
    "generator exit": "raise GeneratorExit",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "tallyman.yaml").write_text("name: files\n")
    (tmp_path / "pipelines").mkdir()
    return Home(tmp_path)


@pytest.mark.parametrize("command", some(["run", "ls", "check"], 1))
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_cannot_be_read_is_an_error_with_its_name(
    home: Home, kind: str, command: str
) -> None:
    (home.path / "pipelines" / "bad.py").write_bytes(FILES[kind])
    (home.path / "pipelines" / "good.py").write_text(DECLARED)
    reply = home.printed(command)
    assert reply.code == 2, reply
    said = reply.stdout + reply.stderr
    assert "bad.py" in said
    assert "Traceback" not in said
    assert not (home.path / ".tallyman").exists(), "nothing was registered"
    assert not (home.path / "runs").exists()


@pytest.mark.parametrize("kind", IN_A_FUNCTION)
def test_a_function_that_ends_the_program_is_an_error_of_its_asset(home: Home, kind: str) -> None:
    text = f"{DECLARED}\n\n@tm.asset\ndef a(s):\n    {IN_A_FUNCTION[kind]}\n"
    reply = home.pipeline(text).printed("check", "--no-spark")
    assert reply.code == 2, reply
    assert "asset a" in reply.stdout + reply.stderr
    assert "Traceback" not in reply.stdout + reply.stderr


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
