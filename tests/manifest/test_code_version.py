"""Which code made a run: with git, with changes, and without."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tallyman.engine.code import code_version as module
from tallyman.engine.code.code_version import code_version, source_hash
from tests.world.git import git


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "pipelines"
    folder.mkdir(parents=True)
    (folder / "p.py").write_text("a = 1\n")
    return folder


@pytest.fixture
def committed(pipelines: Path) -> Path:
    home = pipelines.parent
    git(home, "init", "-q", "-b", "main")
    git(home, "add", ".")
    git(home, "commit", "-qm", "first")
    return pipelines


def test_a_clean_tree_is_its_commit(committed: Path) -> None:
    found = code_version(committed)
    assert found.git_commit == git(committed, "rev-parse", "HEAD")
    assert (found.git_branch, found.git_dirty) == ("main", False)


def test_what_python_leaves_behind_is_no_change(committed: Path) -> None:
    (committed / "__pycache__").mkdir()
    (committed / "__pycache__" / "p.cpython-311.pyc").write_bytes(b"compiled")
    assert code_version(committed).git_dirty is False


def test_a_change_elsewhere_in_the_repository_does_not_count(committed: Path) -> None:
    (committed.parent / "runs").mkdir()
    (committed.parent / "runs" / "report.json").write_text("{}")
    assert code_version(committed).git_dirty is False


@pytest.mark.parametrize("what", ["edited", "staged", "new", "new and ignored", "removed"])
def test_a_change_of_the_pipeline_makes_it_dirty(committed: Path, what: str) -> None:
    if what == "new and ignored":
        (committed.parent / ".gitignore").write_text("new.py\n")
        git(committed, "add", "../.gitignore")
        git(committed, "commit", "-qm", "ignore")
    if what == "removed":
        (committed / "p.py").unlink()
    elif what.startswith("new"):
        (committed / "new.py").write_text("b = 1\n")
    else:
        (committed / "p.py").write_text("a = 2\n")
    if what == "staged":
        git(committed, "add", "p.py")
    assert code_version(committed).git_dirty is True


def test_a_commit_changes_the_commit_and_the_branch_is_named(committed: Path) -> None:
    before = code_version(committed)
    git(committed, "checkout", "-q", "-b", "other")
    (committed.parent / "README").write_text("text")
    git(committed.parent, "add", ".")
    git(committed, "commit", "-qm", "second")
    after = code_version(committed)
    assert after.git_commit != before.git_commit
    assert (after.git_branch, after.source_hash) == ("other", before.source_hash)


def test_a_repository_that_does_not_know_the_pipeline_says_nothing_of_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("demo/\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    folder = tmp_path / "demo" / "pipelines"
    folder.mkdir(parents=True)
    (folder / "p.py").write_text("a = 1\n")
    assert code_version(folder).git_commit is None


def test_before_the_first_commit_there_is_none_and_all_is_change(pipelines: Path) -> None:
    git(pipelines.parent, "init", "-q")
    git(pipelines.parent, "add", ".")
    found = code_version(pipelines)
    assert (found.git_commit, found.git_dirty) == (None, True)


def replaced_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """A git that does something else when it is asked for the status."""
    real, folder = shutil.which("git"), tmp_path / "bin"
    folder.mkdir()
    script = f'#!/bin/sh\ncase "$*" in *status*) {status};; esac\nexec "{real}" "$@"\n'
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("status", ["exit 128", "exec sleep 60"])
def test_a_git_that_does_not_answer_says_nothing_and_not_that_all_is_clean(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    (committed / "p.py").write_text("a = 2\n")
    replaced_git(tmp_path, monkeypatch, status)
    monkeypatch.setattr(module, "SECONDS", 2)
    found = code_version(committed)
    assert (found.git_commit, found.git_branch, found.git_dirty) == (None, None, None)
    assert found.source_hash == source_hash(committed)


def test_variables_of_git_do_not_lead_to_another_repository(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_version(committed)
    other = tmp_path / "other"
    (other / "pipelines").mkdir(parents=True)
    (other / "pipelines" / "q.py").write_text("b = 1\n")
    git(other, "init", "-q", "-b", "elsewhere")
    git(other, "add", ".")
    git(other, "commit", "-qm", "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert code_version(committed) == before
    assert before.git_dirty is False


def test_a_name_that_is_no_text_counts_by_its_bytes(pipelines: Path) -> None:
    before = source_hash(pipelines)
    odd = os.path.join(os.fsencode(pipelines), b"caf\xe9.sql")
    Path(os.fsdecode(odd)).write_text("SELECT 1")
    assert source_hash(pipelines) != before
    os.unlink(odd)
    assert source_hash(pipelines) == before


def test_the_hash_is_what_it_was_before_and_a_link_to_nowhere_is_no_file(pipelines: Path) -> None:
    before = source_hash(pipelines)
    (pipelines / ".#p.py").symlink_to("nowhere")
    assert source_hash(pipelines) == before
    # Runs of today are compared with those of tomorrow: how it is computed must not change.
    digest = hashlib.sha256(b"a = 1\n").hexdigest()
    line = f"p.py\0{6}\0{digest}\n"
    assert before == f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"
