"""Modules that a pipeline imports are part of its code, unless they are installed packages."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tallyman.engine.code.code_version import code_version
from tallyman.engine.code.helper_modules import helper_modules
from tests.world.home import Home


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline that imports a module, which imports a package, which imports the module."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "p.py").write_text("import json\nimport pyarrow\nimport tm_helper\nimport tallyman\n")
    (tmp_path / "tm_helper.py").write_text("from tm_package.sub import rate\n")
    (tmp_path / "tm_package").mkdir()
    (tmp_path / "tm_package" / "__init__.py").write_text("")
    (tmp_path / "tm_package" / "sub.py").write_text("import tm_helper\nrate = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def source_hash(folder: Path) -> str | None:
    return code_version(folder).source_hash


def test_modules_are_followed_and_packages_of_others_are_not(pipelines: Path) -> None:
    assert [name for name, _ in helper_modules(pipelines)] == [
        "tm_helper.py",
        "tm_package/__init__.py",
        "tm_package/sub.py",
    ]


def test_a_change_in_a_module_is_a_change_of_the_pipeline(pipelines: Path) -> None:
    before = source_hash(pipelines)
    assert source_hash(pipelines) == before
    (pipelines.parent / "tm_package" / "sub.py").write_text("import tm_helper\nrate = 3\n")
    assert source_hash(pipelines) != before


def test_a_module_that_is_not_imported_changes_nothing(pipelines: Path) -> None:
    before = source_hash(pipelines)
    (pipelines.parent / "tm_other.py").write_text("a = 1\n")
    assert source_hash(pipelines) == before


@pytest.mark.parametrize("text", ["import", "import tm_nowhere\n", "from . import x\n", "\0"])
def test_what_cannot_be_read_or_found_is_passed_over(pipelines: Path, text: str) -> None:
    (pipelines / "odd.py").write_text(text)
    assert len(helper_modules(pipelines)) == 3


def test_a_process_that_stays_alive_compiles_what_the_module_says_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it has imported the module itself, and after an edit of the same size in the same
    second, with compiled files next to the module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "tallyman.yaml").write_text("name: alive\n")
    home = Home(tmp_path).pipeline(
        "import tallyman as tm\nimport tm_rates\n"
        'tm.source("raw", "data/raw.jsonl", schema="id string, n int", key="id")\n'
        '@tm.asset(key="id")\ndef made(raw):\n'
        '    return raw.withColumn("m", f"n * {tm_rates.rate}")\n'
    )
    helper = tmp_path / "tm_rates.py"
    for rate in (20, 30, 100):
        helper.write_text(f"rate = {rate}\n")
        os.utime(helper, (1_700_000_000, 1_700_000_000))
        assert f'n * {rate}"' in home.printed("compile").stdout
        if rate == 20:
            monkeypatch.setitem(sys.modules, "tm_rates", import_module("tm_rates"))
            assert list(tmp_path.glob("__pycache__/tm_rates.*.pyc"))
