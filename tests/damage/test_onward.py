"""What is made from damaged files: nothing. The error names the file, and what was there stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallyman.errors import DatasetDamaged
from tallyman.project import Project
from tests.damage.conftest import StoredHome, fee
from tests.world.scale import some


@contextmanager
def damaged(path: Path, at: int) -> Iterator[None]:
    """One bit, in place."""
    before = path.read_bytes()
    changed = bytearray(before)
    changed[at] ^= 1
    path.write_bytes(changed)
    try:
        yield
    finally:
        path.write_bytes(before)


def file_of(project: Project, name: str) -> Path:
    """The first file with rows of the current version."""
    fragments = project.resolve(name).fragments
    paths = project.warehouse.paths(fragments)
    return next(Path(path) for path in paths if Path(path).stat().st_size)


@pytest.mark.parametrize("place", some(["first page header", "footer"], 1))
def test_a_run_that_reads_a_damaged_version_publishes_nothing(
    shop: StoredHome, project: Project, place: str
) -> None:
    """Neither is covered by the checksums of pages."""
    file = file_of(project, "lines")
    at = 5 if place == "first page header" else file.stat().st_size - 30
    heads = project.heads()
    with damaged(file, at):
        reply = shop.tallyman("run", "per_item", "--force")
        with pytest.raises(DatasetDamaged, match=file.name):
            project.read("lines")
    assert reply.code == 1, str(reply)
    [failed] = [one for one in reply.json["assets"] if one["status"] == "failed"]
    assert failed["error"]["code"] == "dataset_damaged"
    assert file.name in failed["error"]["message"]
    assert "verify dataset" in failed["error"]["hint"]
    assert project.heads() == heads


def test_a_table_with_a_damaged_file_is_not_written_to(shop: StoredHome, project: Project) -> None:
    """Rows that are written again would get fresh hashes: the damage would look sound for ever."""
    file, heads = file_of(project, "fees"), project.heads()
    (shop.path / "again.json").write_text(fee("eve", "9.00"))
    (shop.path / "rows.jsonl").write_text(json.dumps({"customer": "eve", "fee": "9.00"}) + "\n")
    for words in (
        ("mutate", "again.json"),
        ("load", "fees", "rows.jsonl", "--mode", "merge"),
        ("read", "fees"),
    ):
        with damaged(file, file.stat().st_size - 30):
            reply = shop.tallyman(*words)
        assert (reply.code, reply.json["error"]["code"]) == (1, "dataset_damaged"), words
        assert file.name in reply.json["error"]["message"]
        assert "Traceback" not in reply.stderr
    assert project.heads() == heads


def test_the_command_names_damaged_metadata_of_a_version(
    shop: StoredHome, project: Project
) -> None:
    at = project.resolve("clean")
    root = project.warehouse.dataset(at.dataset.id)
    manifest = next(str(f.iceberg_manifest["path"]) for f in at.fragments if f.iceberg_manifest)
    about = [manifest, *(file.path for file in at.version.metadata_files)]
    assert len(about) == 3
    for name in about:
        with damaged(root / name, 40):
            reply = shop.tallyman("verify", "dataset", "clean")
        assert reply.code == 1, str(reply)
        assert [(one["shown"], one["kind"]) for one in reply.json["damaged"]] == [(name, "changed")]
