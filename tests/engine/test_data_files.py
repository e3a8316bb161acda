"""Which files an input has: links are followed, loops end, and a file counts once."""

import glob
import os
from pathlib import Path

import pytest

from tallyman.engine.files.listing import list_files
from tallyman.errors import InputMissing, InputUnreadable


def make(home: Path, *names: str) -> None:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)


def link(home: Path, name: str, to: str) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).symlink_to(to)


def names(home: Path, path: str) -> list[str]:
    return [file.name for file in list_files("input", path, home).files]


def test_a_linked_folder_is_read_with_the_real_ones(tmp_path: Path) -> None:
    make(tmp_path, "data/a.json", "real/b.json", "real/deep/c.json")
    link(tmp_path, "data/sub", "../real")
    assert names(tmp_path, "data") == ["a.json", "sub/b.json", "sub/deep/c.json"]
    alone = tmp_path / "alone"
    link(tmp_path, "alone/sub", "../real")
    assert names(alone, ".") == ["sub/b.json", "sub/deep/c.json"]


def test_a_file_with_two_names_is_read_once_under_its_own(tmp_path: Path) -> None:
    make(tmp_path, "data/2026/a.json", "data/2025/b.json")
    link(tmp_path, "data/2000_latest", "2026")
    link(tmp_path, "data/2026/first.json", "a.json")
    assert names(tmp_path, "data") == ["2025/b.json", "2026/a.json"]
    assert names(tmp_path, "data/*") == ["2025/b.json", "2026/a.json"]
    assert names(tmp_path, "data/**/*.json") == ["2025/b.json", "2026/a.json"]
    assert names(tmp_path, "data/*latest") == ["2000_latest/a.json"]


def test_a_file_outside_with_two_links_is_read_under_the_first_name(tmp_path: Path) -> None:
    make(tmp_path, "real/b.json")
    link(tmp_path, "data/y", "../real")
    link(tmp_path, "data/x.json", "../real/b.json")
    link(tmp_path, "data/z", "../real")
    assert names(tmp_path, "data") == ["x.json"]


@pytest.mark.parametrize("path", ["data", "data/*", "data/**", "data/**/*.json"])
def test_a_loop_of_links_ends(tmp_path: Path, path: str) -> None:
    make(tmp_path, "data/x/a.json", "data/y/b.json", "other/c.json")
    link(tmp_path, "data/x/back", "..")
    link(tmp_path, "data/x/over", "../y")
    link(tmp_path, "data/y/over", "../x")
    link(tmp_path, "data/y/up", "../..")  # above the input: not a part of it
    link(tmp_path, "data/self", "self_of_self")
    link(tmp_path, "data/self_of_self", ".")
    assert names(tmp_path, path) == ["x/a.json", "y/b.json"]


def test_an_input_that_is_itself_reached_through_a_link_keeps_its_names(tmp_path: Path) -> None:
    make(tmp_path, "disk/data/a.json", "disk/data/sub/b.json")
    link(tmp_path, "data", "disk/data")
    assert names(tmp_path, "data") == ["a.json", "sub/b.json"]
    assert list_files("input", "data", tmp_path).files[0].path == str(tmp_path / "data/a.json")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    make(tmp_path, "data/a.json")
    link(tmp_path, "data/sub/gone", "../../nowhere")
    with pytest.raises(InputUnreadable, match=r"'sub/gone'.*the link leads nowhere"):
        names(tmp_path, "data")
    with pytest.raises(InputUnreadable, match="the link leads nowhere"):
        names(tmp_path, "data/**/*")


def test_a_pipe_among_the_files_is_named_and_not_opened(tmp_path: Path) -> None:
    make(tmp_path, "data/a.json")
    os.mkfifo(tmp_path / "data/pipe")
    with pytest.raises(InputUnreadable, match=r"'pipe'.*not a regular file"):
        names(tmp_path, "data")


def test_hidden_names_are_not_data(tmp_path: Path) -> None:
    make(tmp_path, "data/a.json", "data/_SUCCESS", "data/.b.json", "data/_tmp/c.json")
    assert names(tmp_path, "data") == ["a.json"]
    with pytest.raises(InputMissing):
        names(tmp_path, "nothing")


@pytest.mark.parametrize(
    "pattern",
    ["**", "**/*.json", "*/*.json", "**/[ab].json", "**/[!ab].json", "?/**/b.json", "x/**"],
)
def test_a_pattern_means_what_python_means(tmp_path: Path, pattern: str) -> None:
    make(tmp_path, *(f"data/{n}" for n in ("a.json", "x/b.json", "x/y/b.json", "x/y/c.json")))
    make(tmp_path, *(f"data/{n}" for n in ("z/.h/b.json", "x/[b].json", "x.y/b.json", "_u.json")))
    wanted = {
        os.path.relpath(p, tmp_path / "data")
        for p in glob.glob(str(tmp_path / "data" / pattern), recursive=True)
        if os.path.isfile(p)
    }
    below = {
        os.path.relpath(f.path, tmp_path / "data")
        for f in list_files("i", f"data/{pattern}", tmp_path).files
    }
    assert below == wanted
