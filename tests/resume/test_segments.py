"""A resume goes on after the last complete segment that is intact, and ends as if nothing failed.

One run meets all of it: a kill in `counted`, a damaged file, a kill in `digested`, a full disk in
`states`, and then nothing more.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tallyman.engine.segment.segment_records import SegmentRecords
from tests.resume.conftest import left, segments
from tests.world.home import Home

RUN = "broken"


def inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.rglob("part-*")}


def live_file(folder: Path) -> Path:
    return next(folder.glob("_tm_part=0/part-*"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@dataclass(frozen=True)
class Attempts:
    copy: Path
    """The segments of `counted`, as the first attempt left them."""
    grouped: set[int]
    """The files in which that attempt wrote the keys of its first groups."""
    kept: list[str]
    """What lay in the folders of attempts when the run had failed."""
    resumed: Any
    reused: dict[str, str]


@pytest.fixture(scope="module")
def plain(home: Home) -> Home:
    home.ok("run", "--run-id", "plain")
    return home


@pytest.fixture(scope="module")
def attempts(plain: Home, tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    home = plain
    killed = home.tallyman("run", "--force", "--run-id", RUN, TALLYMAN_CRASH_AT="segment_written@4")
    assert killed.code == -9, killed
    place = segments(home, RUN, 1, "counted")
    copy = Path(shutil.copytree(place, tmp_path_factory.mktemp("segments") / "copy"))
    grouped = inodes(place / "segment-3" / "_tm_part=0")

    killed = home.tallyman("resume", RUN, TALLYMAN_CRASH_AT="segment_written@8")
    assert killed.code == -9, killed
    flip(live_file(segments(home, RUN, 1, "digested") / "segment-2"))

    full = home.tallyman("resume", RUN, TALLYMAN_CRASH_AT="trace_step@4:full")
    assert full.code == 1, full
    kept = sorted(path.name for path in home.folder(RUN).glob(".staging/*/*"))
    resumed = home.ok("resume", RUN)
    reused = {made["name"]: made.get("reused", "") for made in home.ok("show", RUN)["assets"]}
    return Attempts(copy, grouped, kept, resumed, reused)


def test_complete_segments_are_reused_file_by_file(plain: Home, attempts: Attempts) -> None:
    said = attempts.reused["counted"]
    assert said == "reused segments 1 to 3 of attempt 1, up to step 50_explode"
    evidence = plain.folder(RUN) / "counted" / "adjoint" / "reverse_joins"
    assert attempts.grouped
    assert attempts.grouped <= inodes(evidence)


def test_a_damaged_segment_is_made_again_and_the_one_before_it_reused(attempts: Attempts) -> None:
    reused, _, again = attempts.reused["digested"].partition("; ")
    assert reused == "reused segment 1 of attempt 1, up to step 30_filter"
    assert again.startswith("segment 2 is made again: _tm_part=0/part-")
    assert again.endswith(" was changed")


def test_a_trace_goes_on_after_the_segment_whose_trace_could_not_be_written(
    attempts: Attempts,
) -> None:
    assert attempts.reused["states"] == "reused segments 1 to 4 of attempt 1, up to step 40_update"


@pytest.mark.parametrize("asset", ["counted", "digested", "states"])
def test_a_resumed_result_is_that_of_a_run_that_never_failed(
    plain: Home, attempts: Attempts, asset: str
) -> None:
    expected, found = left(plain, "plain", asset), left(plain, RUN, asset)
    assert set(found) == set(expected)
    assert {name: found[name] for name in found} == expected


def test_a_resumed_run_is_proved_and_reproduced(plain: Home, attempts: Attempts) -> None:
    assert attempts.resumed["status"] == "success"
    assert plain.ok("verify", RUN)["balanced"]
    assert plain.ok("reproduce", RUN)["verdict"] == "REPRODUCED"


def test_warnings_of_a_reused_segment_are_counted_once(plain: Home, attempts: Attempts) -> None:
    counts = [
        {made["name"]: made.get("warnings") for made in plain.ok("show", run)["assets"]}
        for run in ("plain", RUN)
    ]
    assert counts[0]["counted"][0]["count"] == 5
    assert counts[0] == counts[1]


def test_only_segments_of_what_failed_stay_and_only_until_it_succeeds(
    plain: Home, attempts: Attempts
) -> None:
    assert attempts.kept == ["states.work"]
    assert not (plain.folder(RUN) / ".staging").exists()


# ---- every way in which a segment can differ from its record --------------------------------


def missing(folder: Path) -> None:
    live_file(folder / "segment-2").unlink()


def added(folder: Path) -> None:
    file = live_file(folder / "segment-2")
    shutil.copy(file, file.with_name("part-00009.parquet"))


def added_part(folder: Path) -> None:
    (folder / "segment-2" / "_tm_part=7").mkdir()


def linked(folder: Path) -> None:
    file = live_file(folder / "segment-2")
    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")


def linked_whole(folder: Path) -> None:
    (folder / "segment-2").rename(folder / "elsewhere")
    (folder / "segment-2").symlink_to(folder / "elsewhere")


def exchanged(folder: Path) -> None:
    shutil.copy(live_file(folder / "segment-1"), live_file(folder / "segment-2"))


def forged(folder: Path) -> None:
    record = folder / "segment-2.json"
    record.write_text(record.read_text().replace('"attempt": 1', '"attempt": 3'))


def cut_off(folder: Path) -> None:
    record = folder / "segment-2.json"
    record.write_text(record.read_text()[:100])


DAMAGE = [missing, added, added_part, linked, linked_whole, exchanged, forged, cut_off]


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: harm.__name__)
def test_a_segment_that_differs_from_its_record_is_not_reused(
    attempts: Attempts, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(attempts.copy, tmp_path / "copy"))
    harm(folder)
    made_from = json.loads((folder / "segment-1.json").read_text())["made_from"]
    with ThreadPoolExecutor(1) as pool:
        found = SegmentRecords(folder, made_from, 2, pool, lambda: None)
        found.find()
    assert list(found.reused) == [str(folder / "segment-1")]
    assert "segment 2 is made again" in str(found.problem)
    assert sorted(p.name for p in folder.glob("segment-*")) == ["segment-1", "segment-1.json"]


def test_unharmed_segments_of_the_same_definition_are_reused_and_of_another_are_not(
    attempts: Attempts, tmp_path: Path
) -> None:
    made_from = json.loads((attempts.copy / "segment-1.json").read_text())["made_from"]
    known = {"definition", "inputs", "code", "settings", "digests", "environment"}
    assert set(made_from) == known
    with ThreadPoolExecutor(1) as pool:
        for name in (None, *made_from):
            folder = Path(shutil.copytree(attempts.copy, tmp_path / str(name)))
            asked = made_from if name is None else {**made_from, name: "other"}
            found = SegmentRecords(folder, asked, 2, pool, lambda: None)
            found.find()
            assert len(found.reused) == (3 if name is None else 0)
            assert name is None or f"{name} changed" in str(found.problem)
