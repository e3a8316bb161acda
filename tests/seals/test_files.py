"""One byte of a sealed run, anywhere: `verify` fails and names the file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallyman.control.seal.check import Witness, look, witness
from tallyman.control.verify.verify import Verification
from tallyman.project import Project
from tests.seals.conftest import SealedHome, flipped, written
from tests.world.scale import FULL

FLIPS = 40 if FULL else 4
"""Bytes of each file that are changed, one at a time."""
RUNS = ("first", "second", "third")


@pytest.fixture(scope="module")
def project(shop: SealedHome) -> Iterator[Project]:
    with Project.open(shop.path) as opened:
        yield opened


@pytest.fixture(scope="module")
def known(project: Project) -> dict[str, Witness]:
    """What the registry knows of each run."""
    records = {run: project.find_run(run) for run in RUNS}
    return {
        run: project.database.durably(lambda tx, r=record: witness(tx, project.settings, r))
        for run, record in records.items()
    }


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def kind_of(name: str) -> str:
    """`good/errors/error_type=x/part.jsonl` is of the kind `errors .jsonl`."""
    parts = Path(name).parts
    inside = parts[3:] if parts[0] == "attempts" else parts[1:]
    attempt = "attempt " if parts[0] == "attempts" else ""
    return attempt + (inside[0] if len(inside) > 1 else parts[-1]) + Path(name).suffix


def names(verdict: Verification) -> list[str]:
    return [changed.file for changed in verdict.changes]


def test_the_runs_have_files_of_every_kind(shop: SealedHome) -> None:
    kinds = {
        kind_of(str(p.relative_to(shop.folder("first")))) for p in files_of(shop.folder("first"))
    }
    for wanted in (
        "output.parquet",
        "adjoint.parquet",
        "errors.jsonl",
        "trace.parquet",
        "outputs.csv",
        "seal.json.json",
        "manifest.json.json",
        "config.json.json",
        "processing_report.json.json",
        "ledger.json.json",
    ):
        assert wanted in kinds, sorted(kinds)
    aside = {path.name for path in files_of(shop.folder("first") / "attempts")}
    assert {"seal.json", "ledger.json", "processing_report.json"} <= aside
    sealed = json.loads((shop.folder("second") / "seal.json").read_text())
    assert set(sealed["reused"]) == {"good", "totals", "edited"}


@pytest.mark.parametrize("run", RUNS)
def test_untouched_runs_are_verified(shop: SealedHome, run: str) -> None:
    said = shop.ok("verify", run)
    assert (said["verified"], said["balanced"], said["sealed"]) == (True, True, True)
    assert (said["changed_files"], said["first_changed"], said["reasons"]) == ([], None, [])
    ordinal = {"first": 2, "second": 3, "third": 4}[run]
    assert said["seal"]["ordinal"] == ordinal
    [key] = (shop.path / "keys").glob("*.pub")
    assert said["signed_by"] == (None if run == "first" else key.stem)


@pytest.mark.parametrize("run", RUNS)
def test_one_flipped_byte_in_any_file_is_found_and_its_file_named(
    shop: SealedHome, known: dict[str, Witness], run: str
) -> None:
    folder = shop.folder(run)
    files = files_of(folder)
    assert len(files) >= 5
    for path in files:
        size = path.stat().st_size
        for at in sorted({0, size // 2, max(size - 1, 0)}):
            with flipped(path, at):
                found = look(folder, known[run])
                assert [c.file for c in found.changes] == [str(path.relative_to(folder))], at
                [changed] = found.changes
                assert changed.then != changed.now
                assert len(changed.then or "") == len(changed.now or "") == 64
    again = look(folder, known[run])
    assert (again.changes, again.problems) == ((), ())


def test_the_command_names_a_flipped_file_of_every_kind(shop: SealedHome) -> None:
    folder = shop.folder("first")
    every = {kind_of(str(path.relative_to(folder))): path for path in files_of(folder)}
    for kind, path in sorted(every.items()):
        name = str(path.relative_to(folder))
        with flipped(path):
            reply = shop.tallyman("verify", "first")
        assert (reply.code, reply.json["verified"]) == (1, False), f"{kind}: {reply}"
        assert reply.json["changed_files"] == [name]
        first = reply.json["first_changed"]
        assert first["file"] == name
        assert first["then"] != first["now"]
        assert "Traceback" not in reply.stderr
    assert shop.tallyman("verify", "first").code == 0


def test_any_byte_of_what_describes_the_run_may_be_broken(
    shop: SealedHome, project: Project
) -> None:
    """These are read by `verify` itself: whatever is in them, it answers."""
    folder = shop.folder("first")
    described = ["seal.json", "manifest.json", "processing_report.json", "ledger.json"]
    for name in [*described, "good/ledger.json", "strict/ledger.json"]:
        path = folder / name
        content = path.read_bytes()
        for at in range(0, len(content), max(1, len(content) // FLIPS)):
            with flipped(path, at):
                verdict = project.verify("first")
            assert (verdict.verified, names(verdict)) == (False, [name]), at
        for broken in (content[: len(content) // 2], b"", b"[]", b'{"files": 3}', b"null"):
            with written(path, broken):
                verdict = project.verify("first")
            assert (verdict.verified, names(verdict)) == (False, [name]), broken
    assert project.verify("first").verified


def test_a_changed_ledger_and_the_changed_files_below_it_are_all_named(
    shop: SealedHome, project: Project, known: dict[str, Witness]
) -> None:
    """Also by the run that reused the result, as the run that made it sealed it."""
    first, second = shop.folder("first"), shop.folder("second")
    part = min((first / "good" / "output").glob("*.parquet"))
    letter = min((first / "good" / "errors").rglob("*.jsonl"))
    ledger = first / "good" / "ledger.json"
    with flipped(ledger), flipped(part), flipped(letter):
        verdict = project.verify("first")
        reused = look(second, known["second"])
    assert names(verdict) == [str(p.relative_to(first)) for p in (ledger, letter, part)]
    assert [c.file for c in reused.changes] == [
        os.path.relpath(p, second) for p in (ledger, letter, part)
    ]
    with written(ledger, None), flipped(part):
        assert names(project.verify("first")) == [str(p.relative_to(first)) for p in (ledger, part)]


@pytest.mark.parametrize(
    "name",
    [
        "note.txt",
        "good/output/part-99999.parquet",
        "good/ledger.json.bak",
        "good/output/ledger.json",
        "attempts/1/seal.json.old",
        "x/.hidden",
        ".manifest.json.part",
    ],
)
def test_an_added_file_is_found(shop: SealedHome, known: dict[str, Witness], name: str) -> None:
    folder = shop.folder("first")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    with written(path, b"{}"):
        found = look(folder, known["first"])
    [changed] = found.changes
    assert (changed.file, changed.then) == (name, None)


def test_a_link_or_a_pipe_is_found_and_not_followed(
    shop: SealedHome, known: dict[str, Witness], tmp_path: Path
) -> None:
    folder = shop.folder("first")
    link, pipe = folder / "elsewhere", folder / "pipe"
    os.symlink(tmp_path, link)
    os.mkfifo(pipe)
    try:
        found = look(folder, known["first"])
    finally:
        link.unlink()
        pipe.unlink()
    assert [(c.file, c.now) for c in found.changes] == [
        ("elsewhere", "not a file"),
        ("pipe", "not a file"),
    ]


def test_every_removed_file_is_found(shop: SealedHome, known: dict[str, Witness]) -> None:
    for run in RUNS:
        folder = shop.folder(run)
        listed = files_of(folder)
        assert len(listed) > 5
        for path in listed:
            os.rename(path, folder.parent / "aside")
            try:
                found = look(folder, known[run])
            finally:
                os.rename(folder.parent / "aside", path)
            [changed] = found.changes
            assert (changed.file, changed.now) == (str(path.relative_to(folder)), None)


def test_a_reused_result_is_followed_to_where_it_was_made(
    shop: SealedHome, known: dict[str, Witness]
) -> None:
    first, second = shop.folder("first"), shop.folder("second")
    part = min((first / "good" / "output").glob("*.parquet"))
    for path in (part, first / "good" / "ledger.json"):
        with flipped(path):
            found = look(second, known["second"])
        assert [c.file for c in found.changes] == [os.path.relpath(path, second)]
    os.rename(first / "totals", first.parent / "aside")
    try:
        found = look(second, known["second"])
    finally:
        os.rename(first.parent / "aside", first / "totals")
    assert found.problems == (f"totals: reused from runs/{first.name}/totals, which is missing",)


def test_a_run_that_did_not_end_is_not_sealed_and_not_verified(shop: SealedHome) -> None:
    killed = shop.tallyman("run", "--run-id", "killed", TALLYMAN_CRASH_AT="report_written")
    assert killed.code == -9
    reply = shop.tallyman("verify", "killed")
    assert (reply.code, reply.json["verified"], reply.json["sealed"]) == (1, False, False)
    assert reply.json["seal"] is None
    assert reply.json["reasons"] == ["not sealed: it has not ended"]
    _, text, _ = shop.printed("verify", "killed")
    assert "NOT SEALED" in text
    shutil.rmtree(shop.folder("killed"))


def test_a_resume_that_was_killed_is_not_sealed_though_its_first_end_was(shop: SealedHome) -> None:
    shop.late(1, -2)
    halted = shop.tallyman("run", "--run-id", "twice")
    assert halted.code == 3, str(halted)
    assert shop.tallyman("resume", "twice", TALLYMAN_CRASH_AT="asset_started").code == -9
    shop.late(1, 2, 3)
    reply = shop.tallyman("verify", "twice")
    assert (reply.code, reply.json["sealed"]) == (1, False)
    assert (
        "not sealed: the run was resumed after its last seal and has not ended"
        in reply.json["reasons"]
    )
    assert shop.ok("verify", "chain")["intact"]
    shop.ok("resume", "twice")
    assert shop.ok("verify", "twice")["verified"]
