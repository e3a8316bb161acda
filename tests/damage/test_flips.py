"""Random damage to any file of two runs and all versions: `verify` names exactly that file, and no
reader returns a value of it."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallyman.control.seal.check import look, witness
from tallyman.errors import TallymanError
from tallyman.project import Project
from tests.damage.conftest import StoredHome
from tests.damage.mutations import Mutation, Mutator
from tests.world.scale import by_form

MUTATIONS = by_form(60, 10_000)
RUNS = ("first", "second")
DATASETS = ("clean", "lines", "per_item", "edited", "edited_rows", "fees")
CLEAN_ERRORS = {"dataset_damaged", "run_damaged", "trace_corrupt", "input_missing"}

Reader = Callable[[], Any]


def readers(project: Project) -> dict[str, Reader]:
    """Every way to ask for what is in the files, except those that need Spark."""

    def chosen(run: str) -> Any:
        return project.runs.chosen(run)

    def traced(run: str) -> Any:
        with project.trace(run) as trace:
            return trace.overview(), list(trace.records())

    found: dict[str, Reader] = {
        "why per_item": lambda: project.why("per_item", {"item": "ink"}),
        "why per_item v1": lambda: project.why("per_item", {"item": "pen"}, version=1),
        "why edited": lambda: project.why("edited", {"id": "o1"}),
        "why fees": lambda: project.why("fees", {"customer": "ann"}),
        "where o1": lambda: project.where("orders", {"id": "o1"}),
        "where o4": lambda: project.where("orders", {"id": "o4"}),
        "where o3": lambda: project.where("orders", {"id": "o3"}, run="first"),
        "compare": lambda: project.compare("first", "second").to_json(),
    }
    for run in RUNS:
        found[f"report {run}"] = lambda run=run: project.report(run).to_json()
        found[f"trace {run}"] = lambda run=run: traced(run)
        found[f"rejections {run}"] = lambda run=run: (
            project.rejections.summary(chosen(run)),
            project.rejections.listed(chosen(run)),
        )
    for name in DATASETS:
        found[f"diff {name}"] = lambda name=name: project.diff(name, 1, 2)
        for version in (1, 2):
            found[f"read {name} v{version}"] = lambda name=name, version=version: project.rows(
                name, version
            )[1]
    return found


def near(path: Path, shop: StoredHome) -> tuple[str, ...]:
    """Readers that open files of this kind, by the beginning of their names."""
    name = str(path.relative_to(shop.path))
    if name.startswith("warehouse/") or "/output" in name:
        return ("read", "diff", "why", "where")
    for part, asked in {
        "/errors/": ("rejections", "where", "report"),
        "/adjoint/": ("why", "where", "report"),
        "/trace/": ("trace",),
        "/ledger.json": ("report", "compare", "why", "where", "trace", "rejections"),
    }.items():
        if part in name:
            return asked
    return ("report", "compare", "trace", "rejections")


def every_file(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


class Judge:
    """What `verify` says of each run and version, and how long that took."""

    def __init__(self, shop: StoredHome, project: Project) -> None:
        self.shop, self.project = shop, project
        records = {run: project.find_run(run) for run in RUNS}
        self._witnesses = {
            run: project.database.durably(lambda tx, r=record: witness(tx, project.settings, r))
            for run, record in records.items()
        }
        self._folders = {run: shop.folder(run) for run in RUNS}
        self._versions = self._by_file()

    def _by_file(self) -> dict[Path, list[tuple[str, int]]]:
        found: dict[Path, list[tuple[str, int]]] = {}
        for name in DATASETS:
            for version in (1, 2):
                at = self.project.resolve(name, version)
                warehouse = self.project.warehouse
                about = warehouse.expected_metadata(at.fragments, at.version.metadata_files)
                for file in (*warehouse.expected(at.fragments), *about):
                    found.setdefault(Path(file.path), []).append((name, version))
        return found

    def known(self) -> set[Path]:
        return set(self._versions)

    def named(self, paths: set[Path]) -> set[Path]:
        """All files that are named by what looks after these; nothing else may be."""
        found: set[Path] = set()
        for run, folder in self._folders.items():
            if any(path.is_relative_to(folder) for path in paths):
                said = look(folder, self._witnesses[run])
                found |= {folder / changed.file for changed in said.changes}
        versions = {one for path in paths for one in self._versions.get(path, ())}
        for name, version in versions:
            at, damage = self.project.damaged(name, version)
            root = self.project.warehouse.dataset(at.dataset.id)
            found |= {root / one.shown for one in damage}
        return found


@pytest.fixture(scope="module")
def judge(shop: StoredHome, project: Project) -> Judge:
    return Judge(shop, project)


@pytest.fixture(scope="module")
def files(shop: StoredHome) -> list[Path]:
    runs = [path for run in RUNS for path in every_file(shop.folder(run))]
    return runs + every_file(shop.path / "warehouse")


@pytest.fixture(scope="module")
def names(files: list[Path]) -> dict[int, set[Path]]:
    """All names of a file: that of the run and that of the version are one on disk."""
    found: dict[int, set[Path]] = {}
    for path in files:
        found.setdefault(path.stat().st_ino, set()).add(path)
    return found


def test_there_are_files_of_every_kind(shop: StoredHome, files: list[Path], judge: Judge) -> None:
    listed = [str(path.relative_to(shop.path)) for path in files]
    for part in (
        "/output/", "/outputs/", "/errors/", "/_summary.json", "/adjoint/filtered_keys/",
        "/adjoint/reverse_joins/", "/adjoint/parent_child/", "/trace/operation_seq=",
        "/trace/steps.json", "/ledger.json", "/manifest.json", "/config.json", "/seal.json",
        "/processing_report.json", "/lineage/", "/manifest.avro", ".metadata.json",
        ".manifests.avro",
    ):  # fmt: skip
        assert any(part in name for name in listed), part
    # Nothing in the warehouse is looked after by nobody.
    assert judge.known() == set(every_file(shop.path / "warehouse"))


def test_random_damage_is_found_by_verify_and_never_served(
    shop: StoredHome,
    project: Project,
    judge: Judge,
    files: list[Path],
    names: dict[int, set[Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    seed = int(os.environ.get("TALLYMAN_SEED") or random.SystemRandom().randrange(1 << 32))
    sys.stdout.write(f"TALLYMAN_SEED={seed}\n")
    dice = random.Random(seed)
    mutator = Mutator(dice, tmp_path_factory.mktemp("aside"))
    asked = readers(project)
    whole = {name: read() for name, read in asked.items()}
    tally: Counter[str] = Counter()
    started = time.monotonic()
    for _ in range(MUTATIONS):
        path = dice.choice(files)
        root = next(f for f in (*map(shop.folder, RUNS), shop.path) if path.is_relative_to(f))
        others = [other for other in files if other != path and other.is_relative_to(root)]
        with mutator.mutated(path, others) as mutation:
            _judge(mutation, judge, names, seed)
            wanted = near(path, shop)
            close = [name for name in asked if name.startswith(wanted)]
            for name in {dice.choice(close), dice.choice(list(asked))}:
                tally[f"{mutation.kind}: {_served(asked[name], whole[name], mutation, name)}"] += 1
    took = time.monotonic() - started
    sys.stdout.write(f"{MUTATIONS:,} in {took:.1f} s: {dict(sorted(tally.items()))}\n")
    assert any(kind.endswith("refused") for kind in tally)
    assert {name: read() for name, read in asked.items()} == whole, f"seed {seed}"


def _judge(mutation: Mutation, judge: Judge, names: dict[int, set[Path]], seed: int) -> None:
    damaged = set(mutation.paths)
    if mutation.in_place:
        damaged = names[mutation.paths[0].stat().st_ino]
    assert judge.named(damaged) == damaged, f"seed {seed}: {mutation}"


def _served(read: Reader, whole: Any, mutation: Mutation, name: str) -> str:
    """Refused with an error of ours that names what is damaged, or answered as before."""
    answer, error = _answer(read)
    said = f"{name}: {mutation}: {error or answer}"
    if error is not None:
        assert error.code in CLEAN_ERRORS, said
        assert any(path.name in str(error) for path in mutation.paths), said
        return "refused"
    if answer != whole:
        # A file of an input that is gone is said to be gone, and no value of it is shown.
        assert mutation.kind == "deleted", said
        assert any(path.name in str(answer) for path in mutation.paths), said
        return "said to be gone"
    return "answered as before"


def _answer(read: Reader) -> tuple[Any, TallymanError | None]:
    """Any other exception fails the test."""
    try:
        return read(), None
    except TallymanError as error:
        return None, error
