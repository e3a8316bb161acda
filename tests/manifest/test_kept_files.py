"""The text of a pipeline's files is kept with its version: all that declares it, and no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallyman.engine.code import kept_files as kept

PYTHON = """\
import json
import tm_kept_helper

PASSWORD = "hunter2"
limit = tm_kept_helper.LIMIT
"""


def test_files_and_helper_modules_are_kept_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pipelines"
    (folder / "part").mkdir(parents=True)
    (tmp_path / "tm_kept_helper.py").write_text("LIMIT = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (folder / "p.py").write_text(PYTHON)
    (folder / "part" / "more.py").write_text("x = 1\n")
    (folder / "q.yaml").write_text("sources: {s: {path: d, api_token: hunter2}}\n")
    (folder / "r.json").write_text('{"tallyman": 1, "password": "hunter2"}')
    (folder / "odd.py").write_bytes(b"\xff\xfe")
    (folder / "nul.py").write_text("a = '\0'")
    for name in (".env", "data.csv", "key.pem", "query.sql"):
        (folder / name).write_text("hunter2")
    monkeypatch.setattr(kept, "LARGEST", 400)
    (folder / "large.json").write_text(f'{{"a": "{"x" * 400}"}}')

    found = kept.kept_files(folder)

    assert list(found) == [
        "import tm_kept_helper.py", "large.json", "nul.py", "odd.py", "p.py", "part/more.py",
        "q.yaml", "r.json",
    ]  # fmt: skip
    assert found["import tm_kept_helper.py"] == "LIMIT = 7\n"
    assert found["part/more.py"] == "x = 1\n"
    assert found["p.py"] is not None
    assert "limit = tm_kept_helper.LIMIT" in found["p.py"]
    assert [found[name] for name in ("large.json", "nul.py", "odd.py")] == [None] * 3
    assert "hunter2" not in str(found)
