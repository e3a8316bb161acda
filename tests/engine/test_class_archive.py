"""The archive of Spark's classes: used where it is, made on request, and never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallyman.engine.spark import class_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(class_archive.SUBMIT_OPTIONS, raising=False)
    return tmp_path


def made(cache: Path) -> Path:
    place = class_archive.archive()
    assert place.parent.parent == cache
    place.parent.mkdir()
    place.write_bytes(b"classes")
    return place


def test_java_gets_the_archive_only_while_spark_starts(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with class_archive.in_use():
        assert class_archive.SUBMIT_OPTIONS not in os.environ
    place = made(cache)
    with class_archive.in_use():
        assert f"-XX:SharedArchiveFile={place}" in os.environ[class_archive.SUBMIT_OPTIONS]
    assert class_archive.SUBMIT_OPTIONS not in os.environ
    monkeypatch.setenv(class_archive.SUBMIT_OPTIONS, "-Dmine=1")
    with class_archive.in_use():
        assert os.environ[class_archive.SUBMIT_OPTIONS].endswith(" -Dmine=1")
    assert os.environ[class_archive.SUBMIT_OPTIONS] == "-Dmine=1"
