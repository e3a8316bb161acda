"""Java for short runs: only where there is little data, and without a trace in the settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallyman.engine.spark import class_archive, short_runs
from tallyman.project import Project

OPENED = """\
import sys
import psutil
from tallyman.project import Project

with Project.open(sys.argv[1]) as project:
    if sys.argv[2] == "soon":
        project.workspace.ends_soon()
    kept = dict(project.spark.sparkContext.getConf().getAll())
    assert "TieredStopAtLevel" not in str(kept), kept
    alive = [one for one in psutil.Process().children(True) if one.status() != "zombie"]
    words = [word for one in alive for word in one.cmdline()]
    print("SHORT" if set(sys.argv[3].split()) <= set(words) else "LONG")
"""


def test_the_bytes_of_files_and_folders_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a").write_bytes(b"x" * 60)
    (tmp_path / "one").write_bytes(b"x" * 40)
    (tmp_path / "data" / "nothing").symlink_to(tmp_path / "gone")
    places = [tmp_path / "data", tmp_path / "one", tmp_path / "missing"]
    assert short_runs.is_little(places, 100)
    assert not short_runs.is_little(places, 99)


def test_options_of_the_user_come_last_and_so_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(class_archive.SUBMIT_OPTIONS, "-XX:TieredStopAtLevel=4")
    with class_archive.in_use(short_runs.ONE_COMPILER):
        given = os.environ[class_archive.SUBMIT_OPTIONS]
    assert given.endswith(f"{short_runs.ONE_COMPILER} -XX:TieredStopAtLevel=4")


@pytest.mark.parametrize(
    ("conf", "environment", "serial"),
    [
        ({"spark.driver.memory": "1g"}, {"PATH": "/bin"}, True),
        ({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}, {}, False),
        ({}, {"JAVA_TOOL_OPTIONS": "-XX:+UseZGC"}, False),
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}, False),
    ],
)
def test_a_collector_is_chosen_only_if_nobody_else_may_have(
    conf: dict[str, str], environment: dict[str, str], serial: bool
) -> None:
    assert short_runs.java(conf, environment).endswith(short_runs.SERIAL) is serial


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tallyman.yaml").write_text("name: short\n")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.py").write_text(
        "import tallyman as tm\n"
        "tm.source('rows', path='data/*/{partition}.json', key='id', schema='id int')\n"
    )
    (tmp_path / "data" / "x").mkdir(parents=True)
    return tmp_path


def test_a_project_with_much_data_gets_the_usual_java(home: Path) -> None:
    with Project.open(home) as project:
        assert not project.workspace.session.ends_soon  # nobody said that the process ends
        project.workspace.ends_soon()
        assert project.workspace.session.ends_soon
        assert project.workspace.has_little_to_do()
        with open(home / "data" / "x" / "2024.json", "wb") as large:
            large.truncate(short_runs.MOST_BYTES + 1)
        assert not project.workspace.has_little_to_do()


def test_java_gets_the_options_and_the_settings_of_spark_do_not(home: Path) -> None:
    words = [sys.executable, "-c", OPENED, str(home), "soon", short_runs.ONE_COMPILER]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "SHORT"), done.stderr
