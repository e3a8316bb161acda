"""Any arguments of any command, in a project that never ran: exit codes 0 to 4, one clear message,
no stack trace, and nothing run or published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.test_help import COMMANDS, every
from tests.fuzz.cases import ARGUMENTS
from tests.fuzz.conftest import SOUND
from tests.world.databases import Databases
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import FULL

# They wait for a terminal or for ever, start Spark, make a project elsewhere, or leave a server
# running.
LEFT_OUT = {("db", "shell"), ("db", "url"), ("demo",), ("init",), ("keys", "init"), ("server",)}
SPARK = {("run",), ("backfill",), ("apply",), ("resume",), ("reproduce",), ("check",), ("doctor",)}
LEAVES = {
    path: command
    for path, command in every(COMMANDS)
    if not hasattr(command, "commands") and path not in LEFT_OUT | SPARK
}
TABLES = ("runs", "materializations", "commits", "versions", "snapshots")

words = st.sampled_from(
    ["kept", "orders", "latest", "nobody", "", " ", "-1", "0", "1", "2", "99999999999999999999",
     "id=1", "id=", "=1", "id=null", "id='null'", "@a#1", "@", "tag:x", "state:modified", "+kept+",
     "../..", "/", "/dev/null", "a\x00b".replace("\x00", ""), "é", "x" * 5000, "{}", "[]",
     "2026-01-01", "1d", "NaN", "*", "%", "'; DROP TABLE runs; --", "\u202e", "\ud7ff"]
) | st.text(max_size=12).filter(lambda t: "\x00" not in t)  # fmt: skip


def options(command: Any) -> list[str]:
    named = [name for one in command.params for name in one.opts if name.startswith("-")]
    return sorted(set(named) - {"--project", "-C", "--help", "--master", "--spark-conf"})


@st.composite
def asked(draw: st.DrawFn) -> list[str]:
    path = draw(st.sampled_from(sorted(LEAVES)))
    given_words = draw(st.lists(words, max_size=3))
    known = options(LEAVES[path])
    chosen = draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
    for option in chosen:
        given_words += [option, draw(words)] if draw(st.booleans()) else [option]
    return [*path, *given_words]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Home]:
    with Homes(tmp_path_factory, databases) as homes:
        made = homes.make(Home, "arguments", "").pipeline(SOUND)
        yield made.data("orders.jsonl", {"id": 1, "v": 1})


tried = settings(
    max_examples=ARGUMENTS,
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@tried
@given(asked())
def test_any_arguments(home: Home, given_words: list[str]) -> None:
    reply = home.printed(*given_words)
    said = reply.stdout + reply.stderr
    assert reply.code in range(5), (given_words, reply)
    assert "Traceback" not in said, (given_words, reply)
    assert reply.code == 0 or said.strip(), (given_words, "an error without a word")
    assert home.count(*TABLES) == dict.fromkeys(TABLES, 0), given_words
    assert not (home.path / "runs").exists(), given_words
