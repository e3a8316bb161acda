"""Commands import what they use: those that need no Spark load no Spark, and answer at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import some

EXPENSIVE = {
    "cronsim", "duckdb", "fastapi", "jinja2", "numpy", "pandas", "py4j", "pyarrow",
    "pydantic", "pyiceberg", "pyspark", "requests", "sqlglot", "starlette", "uvicorn",
}  # fmt: skip
PIPELINE = """\
import tallyman as tm

person = tm.table("person", schema="name string not null, age int", key="name")
"""
ASKED = """\
import sys
from tallyman.cli.main import main

sys.argv = ["tallyman", *sys.argv[1:]]
try:
    main()
finally:
    loaded = {name.partition(".")[0] for name in sys.modules}
    print("LOADED", *sorted(loaded), file=sys.stderr)
"""
LIGHT = [
    ("ls",),
    ("runs",),
    ("versions", "person"),
    ("commits",),
    ("graph",),
    ("audit",),
    ("approvals",),
    ("tasks",),
    ("pools",),
    ("worker", "token", "ls"),
    ("server", "--help"),
    ("worker", "--help"),
    ("--version",),
    ("ls", "--help"),
]


def loaded_by(home: Path, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", ASKED, *words],
        cwd=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("LOADED ")
    return set(last.split()[1:])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a table, one version of it, and no run."""
    home = tmp_path_factory.mktemp("people")
    (home / "tallyman.yaml").write_text("name: people\n")
    (home / "pipelines").mkdir()
    (home / "pipelines" / "p.py").write_text(PIPELINE)
    (home / "rows.csv").write_text("name,age\nAda,36\n")
    loaded = loaded_by(home, "load", "person", "rows.csv")
    assert {"duckdb", "pyarrow"} <= loaded
    assert "pyspark" not in loaded
    return home


@pytest.mark.parametrize("words", some(LIGHT, 2), ids=" ".join)
def test_a_command_that_only_looks_loads_nothing_expensive(
    people: Path, words: tuple[str, ...]
) -> None:
    assert loaded_by(people, *words) & EXPENSIVE == set()


def test_showing_a_run_loads_nothing_expensive() -> None:
    show = "import tallyman.cli.read.show, tallyman.project.runs, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "psycopg" in loaded
    assert loaded & EXPENSIVE == set()


def test_a_run_without_changes_loads_nothing_that_makes_rows(homes: Homes) -> None:
    home = (
        homes.make(Home, "unchanged")
        .data("rows.jsonl", {"id": "1", "size": 2})
        .pipeline(
            "import tallyman as tm\n"
            "rows = tm.source('rows', path='data/rows.jsonl', format='json', key='id',\n"
            "                 schema='id string, size int')\n"
            "@tm.asset(key='id')\n"
            "def large(rows):\n"
            "    return rows.filter('size > 1', reason='small')\n"
        )
    )
    assert home.ok("run")["status"] == "success"
    # The settings of PySpark's mode are set before a plan is built, also if none is.
    settings = home.path / "tallyman.yaml"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if not line.startswith("master:")))
    assert loaded_by(home.path, "run") & EXPENSIVE == {"sqlglot"}
    assert len(home.ok("runs")) == 2


def test_rows_are_read_without_spark(people: Path) -> None:
    loaded = loaded_by(people, "read", "person")
    assert "duckdb" in loaded
    assert "pyspark" not in loaded


def test_declaring_a_pipeline_loads_nothing_that_runs_it(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PIPELINE)
    shown = "import p, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", shown], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "tallyman" in loaded
    assert loaded & (EXPENSIVE | {"psycopg", "rich", "typer", "yaml"}) == set()
