"""Settings and places that cannot be used: a message and an exit code, never a stack trace."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import some

PIPELINE = """\
import tallyman as tm

tm.source("orders", "data/orders.jsonl", key="id", schema="id int")


@tm.asset(key="id")
def kept(orders):
    return orders
"""
BROKEN = {
    "not utf-8": (b"name: \xff\xfe\n", "is not UTF-8: byte 7"),
    "nested": (b"name: " + b"[" * 5000, "nested too deeply"),
    "a date": (b"name: 2026-99-99\n", "cannot be read"),
    "bytes": (b"name: \x00\n", "not valid YAML"),
    "a bomb": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n", "unknown setting"),
    "a list as name": (b"name: [a]\n", "name: expected a text"),
    "a long name": (b"name: " + b"x" * 300 + b"\n", "at most 255"),
    "a null in a path": (b'runs: "a\\0b"\n', "runs: expected a folder"),
    "nothing as a folder": (b"warehouse: ''\n", "warehouse: expected a folder"),
    "the root of all folders": (b"pipelines: /\n", "pipelines: expected a folder"),
    "the root by a detour": (b"runs: /tmp/..\n", "runs: expected a folder"),
    "a list for spark": (b"spark: [a]\n", "spark: expected names and values"),
    "a list in spark": (b"spark: {a: [b]}\n", "spark: a: expected a text"),
    "master": (b"master: {a: b}\n", "master: expected an address"),
    "trace": (b"trace: 5\n", "trace: expected"),
    "a mapping as database": (b"database: {projekt: .}\n", "database: expected an address, or"),
    "its own database": (b"database: {project: .}\n", "there is no other project in '.'"),
    "the database of nobody": (b"database: {project: ../x}\n", "no other project in '../x'"),
}  # fmt: skip


@pytest.mark.parametrize("command", some(["check", "ls", "run", "doctor"], 1))
@pytest.mark.parametrize("kind", BROKEN)
def test_settings_that_cannot_be_read_are_an_error(tmp_path: Path, kind: str, command: str) -> None:
    content, said = BROKEN[kind]
    (tmp_path / "tallyman.yaml").write_bytes(content)
    reply = Home(tmp_path).printed(command)
    assert reply.code in (1, 2), reply
    assert said in reply.stdout + reply.stderr
    assert "Traceback" not in reply.stdout + reply.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tallyman.yaml"]


@pytest.mark.parametrize(
    ("place", "how"),
    some(
        [
            *itertools.product(("runs", "warehouse", ".tallyman"), ("a file", "a dangling link")),
            ("runs", "below a file"),
            ("warehouse", "below a file"),
        ],
        3,
    ),
)
def test_a_place_that_cannot_be_made_is_named_and_nothing_is_registered(
    homes: Homes, place: str, how: str
) -> None:
    home = homes.make(Home, "places").pipeline(PIPELINE).data("orders.jsonl", {"id": 1})
    settings = home.path / "tallyman.yaml"
    if how == "below a file":
        (home.path / "file").write_text("")
        settings.write_text(f"{place}: file/inside\n{settings.read_text()}")
    elif how == "a file":
        (home.path / place).write_text("")
    else:
        (home.path / place).symlink_to(home.path / "nowhere")
    reply = home.tallyman("run")
    assert reply.code == 1, reply
    error = reply.json["error"]
    assert error["code"] == "place_unusable"
    assert f"({place}) cannot be used" in error["message"]
    assert "Nothing was run" in error["hint"]
    assert home.count("runs", "materializations", "datasets") == dict.fromkeys(
        ("runs", "materializations", "datasets"), 0
    )


def test_a_run_folder_that_vanishes_is_a_failure_with_a_message(homes: Homes) -> None:
    home = homes.make(Home, "unwritable").pipeline(PIPELINE).data("orders.jsonl", {"id": 1})
    (home.path / "runs").mkdir()
    home.ok("run", "--run-id", "first")
    [folder] = (home.path / "runs").iterdir()
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").mkdir()
    for words in (("show", "first"), ("verify", "first"), ("report", "first")):
        reply = home.printed(*words)
        assert reply.code in range(5), reply
        assert "Traceback" not in reply.stdout + reply.stderr
    json.dumps(home.ok("ls"))
