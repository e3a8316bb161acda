"""The promise of the guide: its examples are a user's test files, and pass in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"
BLOCK = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.M | re.S)
MISMATCHES = re.compile(r"^AssertionError: (close: .*?)^```$", re.M | re.S)
OWN_SETTINGS = ("PYTEST_", "TALLYMAN_")


@pytest.mark.large  # a Spark of its own; the other files of this folder ask the same of the kit
def test_the_guide_is_a_test_suite_that_passes_in_an_empty_folder(tmp_path: Path) -> None:
    files = dict(BLOCK.findall(GUIDE.read_text()))
    assert len(files["test_sales.py"].strip().splitlines()) <= 12  # ten, and two blank ones
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    changed = files["test_trace.py"].replace("(5, 10)", "(5, 11)")
    changed = changed.replace('            RowChange(20, "deleted", {"id": 2}),\n', "")
    (tmp_path / "test_changed.py").write_text(changed)

    before = {k: v for k, v in os.environ.items() if not k.startswith(OWN_SETTINGS)}
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error"],
        cwd=tmp_path,
        env=before | {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(_made(tmp_path / "temporary"))},
        capture_output=True,
        text=True,
    )

    tests = sum(text.count("def test_") for text in files.values())
    assert f"1 failed, {tests} passed" in said.stdout, said.stdout + said.stderr
    (expected,) = MISMATCHES.findall(GUIDE.read_text())
    shown = re.sub(r"^E +", "", said.stdout, flags=re.M)
    for line in expected.splitlines():
        assert line.strip() in shown
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {*files, "test_changed.py"}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_the_plugin_is_an_entry_point_and_loads_nothing_expensive() -> None:
    [plugin] = entry_points(group="pytest11", name="tallyman")
    script = f"import sys, {plugin.value}; print(*sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in said.stdout.split()}
    assert {"pytest", "tallyman"} <= loaded
    assert loaded & {"duckdb", "psycopg", "py4j", "pyarrow", "pyspark", "yaml"} == set()


def test_the_test_kit_works_without_pytest() -> None:
    script = (
        "import sys; sys.modules['pytest'] = None; from tallyman.testing import TallyKit, RowChange"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
