"""Hostile definitions end in a clear refusal, in time; the process that asked is not touched."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession

from tallyman.control.compile import child
from tallyman.control.compile.handover import Handover
from tallyman.domain.pipeline import pipeline as declaring
from tests.world.home import Home
from tests.world.reply import Reply
from tests.world.scale import some
from tests.world.waiting import wait_until

HEAD = """\
import os, signal, subprocess, sys, threading, time
import tallyman as tm
tm.source("raw", "data", schema="id int, v int, s string")
"""
TOO_LONG = "took more than 1 s"
STEPS = "\n\n@tm.asset\ndef made(raw):\n    {}\n"


def asset(body: str) -> str:
    return HEAD + STEPS.format(body.replace("\n", "\n    "))


DEEP: Any = {"from": "raw", "steps": []}
for _ in range(60):
    DEEP = {"from": "raw", "steps": [{"append": {"from": DEEP}}]}


def document(plan: Any, name: str = "made") -> str:
    source = {"format": "json", "path": "data", "schema": "id int"}
    return json.dumps({"tallyman": 1, "sources": {"raw": source}, "assets": {name: plan}})


def filtered(expression: str) -> str:
    return asset(f"return raw.filter({expression!r})")


# What is written, and what is said of it.
HOSTILE: dict[str, tuple[str, str]] = {
    # what a file does to the process
    "exits": (HEAD + "sys.exit(0)", "ended the program: SystemExit(0)"),
    "exits at once": (HEAD + "os._exit(0)", "ended the process that compiles it, with exit code 0"),
    "exits with a code": (HEAD + "os._exit(7)", "with exit code 7"),
    "kills itself": (HEAD + "os.kill(os.getpid(), 9)", "by signal 9"),
    "aborts": (HEAD + "os.abort()", "by signal 6"),
    "hangs": (HEAD + "while True: time.sleep(1)", TOO_LONG),
    "spins": (HEAD + "while True: pass", TOO_LONG),
    "ignores signals": (
        HEAD + "for n in (2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        TOO_LONG,
    ),
    "prints without end": (HEAD + "while True: print('x' * 10_000)", "print more than"),
    "recurses": (HEAD + "def f(): return f()\nf()", "RecursionError"),
    "raises": (HEAD + "raise Exception('a\\nb')", "cannot be imported"),
    "raises what is no Exception": (
        HEAD + "class Odd(BaseException): pass\nraise Odd()", "cannot be imported",
    ),
    "a text that breaks when shown": (
        HEAD + "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd()",
        "cannot be imported",
    ),
    "no Python": (HEAD + "def", "cannot be imported"),
    "nul bytes": (HEAD + "\0", "cannot be imported"),
    "function exits": (asset("sys.exit(3)"), "the function ended the program"),
    "function exits at once": (asset("os._exit(3)"), "with exit code 3"),
    "function hangs": (asset("time.sleep(100)"), TOO_LONG),
    "function recurses": (asset("return made(raw)"), "RecursionError"),
    "returns nothing": (asset("pass"), "must return a Frame, not NoneType"),
    "returns text": (asset("return 'raw'"), "must return a Frame, not str"),
    # plans that are too large
    "many steps": (
        asset("for n in range(100_000): raw = raw.filter('v > 1')\nreturn raw"),
        "more than 500 steps",
    ),
    "a plan doubles": (
        asset("for n in range(64): raw = raw.union(raw)\nreturn raw"), "more than 500 steps",
    ),
    "deep plans": (
        asset("top = raw\nfor n in range(60): top = raw.append(top)\nreturn top"),
        "more than 20 plans",
    ),
    "10 MB": (asset("return raw.filter('v > 1' + ' ' * 11_000_000)"), "more than 10,000,000 bytes"),
    "50 MB": (asset("return raw.filter('v > 1' + ' ' * 50_000_000)"), "more than"),
    # names and texts
    "a name with a quote": (asset("return raw.filter('v', name=\"a'b\")"), "use letters, digits"),
    "a name with a line break": (asset("return raw.filter('v', name='a\\nb')"), "use letters"),
    "an asset out of its folder": (
        HEAD + "tm.asset(lambda raw: raw, name='../x', publish='x')", "use letters, digits",
    ),
    "half a letter": (filtered("s = '\ud800'").encode("utf-8", "backslashreplace").decode()
                      .replace("\\\\ud800", "\\ud800"), "not valid Unicode"),
    "output out of the project": (asset("return raw.output('../../x.csv')"), "path in the project"),
    # expressions that reach outside their rows
    "java": (filtered("reflect('java.lang.System', 'exit', 0) IS NULL"), "calls Java code"),
    "java, quoted": (filtered("`java_method`('a', 'b') = 'c'"), "calls Java code"),
    "java, qualified": (filtered("system.builtin.reflect('a', 'b') = 'c'"), "calls Java code"),
    "java, commented": (filtered("try_reflect/**/('a', 'b') = 'c'"), "calls Java code"),
    "java in a Column": (
        asset("from pyspark.sql import functions as F\n"
              "return raw.filter(F.expr(\"reflect('a', 'b')\") == 'c')"),
        "calls Java code",
    ),
    "a query": (filtered("v > (SELECT max(v) FROM other)"), "contains a query"),
    "a file as a table": (filtered("exists(SELECT * FROM csv.`/etc/passwd`)"), "contains a query"),
    "a name by a string": (filtered("identifier('v') > 1"), "by a string"),
    "a Python function": (
        asset("from pyspark.sql import functions as F\n"
              "return raw.withColumn('x', F.udf(lambda v: v, 'int')('v'))"),
        "write it with SQL functions",
    ),
    "no expression": (asset("return raw.filter(5)"), "found int"),
    "a compiled form of the future": ("json:{}", "expected the version"),
    "a deep document": ("json:" + "[" * 100_000, "nested too deeply"),
    "deep plans in a document": ("json:" + document(DEEP), "more than 20 plans"),
    "a document with another key": (
        "json:" + document({"from": "raw", "steps": [], "run": "rm"}), "unknown key",
    ),
}  # fmt: skip


def check(folder: Path, text: str, seconds: str = "60") -> tuple[Reply, float]:
    (folder / "pipelines").mkdir()
    (folder / "tallyman.yaml").write_text("name: hostile\n")
    name, content = ("p.json", text[5:]) if text.startswith("json:") else ("p.py", text)
    (folder / "pipelines" / name).write_text(content)
    start = time.monotonic()
    reply = Home(folder).tallyman("check", "--no-spark", TALLYMAN_COMPILE_SECONDS=seconds)
    return reply, time.monotonic() - start


def test_there_are_forty_of_them() -> None:
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("case", some(list(HOSTILE), 14))
def test_a_hostile_definition_is_refused_with_a_message(tmp_path: Path, case: str) -> None:
    text, said = HOSTILE[case]
    reply, _ = check(tmp_path, text, "1" if said == TOO_LONG else "60")

    assert reply.code == 2, reply
    problems = reply.json["problems"]
    assert any(said in problem["message"] for problem in problems), reply
    assert "Traceback" not in reply.stdout
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def live_session(spark_server: str) -> Iterator[None]:
    """A Connect session of this process, as a pipeline in a notebook has one."""
    session = SparkSession.builder.remote(spark_server).create()
    yield
    session.stop()


@pytest.mark.usefixtures("live_session")
@pytest.mark.parametrize("forks", [True, False])
def test_a_session_of_the_asking_process_is_not_seen_by_the_compiling_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    monkeypatch.setattr(child, "_can_fork", lambda: forks)
    text, said = HOSTILE["a Python function"]
    reply, _ = check(tmp_path, text, "30")

    assert said in reply.json["problems"][0]["message"], reply


@pytest.mark.parametrize(
    "forged",
    [{"section": ["assets"]}, {"name": 7}, {"value": []}, {"value": None}, {"code": 7}, {"x": 1}],
)
def test_a_hand_over_that_a_file_wrote_itself_is_no_answer(forged: dict[str, Any]) -> None:
    item = {"section": "assets", "name": "a", "value": {}, "problems": [], "code": None}
    written = {"items": [item | forged], "problems": [], "places": {}}
    with pytest.raises(ValueError, match=r"^items\.0"):
        Handover.of_json(json.dumps(written))


def test_a_file_that_hangs_is_named_with_its_line(tmp_path: Path) -> None:
    reply, _ = check(tmp_path, HEAD + "\ndef wait():\n    time.sleep(50)\n\nwait()\n", "1")

    [problem] = reply.json["problems"]
    assert (problem["file"], problem["line"]) == ("pipelines/p.py", 6)


def test_a_file_that_spins_ends_also_if_the_command_is_killed(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "tallyman.yaml").write_text("name: hostile\n")
    mark = tmp_path / "child"
    text = f"import os\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\nwhile True: pass\n"
    (tmp_path / "pipelines" / "p.py").write_text(text)
    asking = Home(tmp_path).installed("check", "--no-spark", TALLYMAN_COMPILE_SECONDS="2")
    wait_until(lambda: mark.exists() and mark.read_text())
    asking.kill()
    asking.communicate()
    spinning = Path("/proc") / mark.read_text()
    wait_until(lambda: not spinning.exists())


def test_what_a_file_prints_is_shown_apart_from_the_answer(tmp_path: Path) -> None:
    text = asset("print('from the function')\nreturn raw") + "print('é from the file')\n"
    text += "os.system('echo from a program')\n"
    reply, _ = check(tmp_path, text)

    assert reply.code == 0
    for said in ("é from the file", "from the function", "from a program"):
        assert said in reply.stderr
    assert reply.json["ok"]


def test_what_a_file_forks_answers_nothing_and_ends(tmp_path: Path) -> None:
    mark = tmp_path / "lives"
    text = asset("return raw") + (
        f"if os.fork() == 0:\n    time.sleep(1.5)\n    open({str(mark)!r}, 'w').close()\n"
    )
    reply, took = check(tmp_path, text)

    assert reply.code == 0
    assert reply.json["checked"] == ["made"]
    time.sleep(max(0.0, 2 - took))
    assert not mark.exists()


def test_a_file_that_changes_tallyman_changes_nothing_here(tmp_path: Path) -> None:
    before = declaring.Pipeline.of, Path.read_text
    text = asset("return raw") + (
        "from pathlib import Path\nfrom tallyman.domain.pipeline.pipeline import Pipeline\n"
        "Pipeline.of = None\nPath.read_text = None\nos.environ['TALLYMAN_HOME'] = '/'\n"
    )
    reply, _ = check(tmp_path, text)

    assert reply.code == 0, reply
    assert before == (declaring.Pipeline.of, Path.read_text)


def test_equal_names_of_files_in_two_projects_do_not_meet(tmp_path: Path) -> None:
    for name, schema in (("one", "a int"), ("two", "b int")):
        place = tmp_path / name
        place.mkdir()
        reply, _ = check(place, f'import tallyman as tm\ntm.source("x", "data", schema="{schema}")')
        assert reply.code == 0
        compiled = Home(place).tallyman("compile").json
        assert compiled["sources"]["x"]["schema"] == schema
