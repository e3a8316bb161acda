"""Write tables: read them at a version, prepare the change, and commit it unless somebody else
published first."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from tallyman import faults
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish.commit import publish
from tallyman.control.publish.fragment import described
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.domain.version.mutation import Mutation, needed, needed_by_load
from tallyman.domain.version.owner import Owner
from tallyman.domain.version.table import Table
from tallyman.engine.table.load import Mode, load
from tallyman.engine.table.mutation import mutate
from tallyman.engine.table.state import Changed, Held
from tallyman.errors import Conflict, FragmentGone, NotFound, TableWriteFailed, VersionConflict
from tallyman.errors.wording import nearest
from tallyman.faults import Point
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True)
class WrittenChange:
    """The result of a mutation or load; without a commit if nothing changed."""

    commit: Commit | None
    changed: Mapping[str, Changed]

    def to_json(self) -> dict[str, object]:
        moves = self.commit.moves if self.commit else ()
        return {
            "commit": str(self.commit.id) if self.commit else None,
            "actor": self.commit.actor if self.commit else None,
            "versions": {move.dataset: move.ordinal for move in moves},
            "tables": {name: _counts(one) for name, one in self.changed.items()},
        }


@dataclass
class Writing:
    """One mutation or load. Nothing of it is visible before its commit."""

    workspace: Workspace
    _datasets: dict[str, Dataset] = field(default_factory=dict)
    _opened: dict[str, Fragment] = field(default_factory=dict)

    def mutate(self, mutation: Mutation) -> WrittenChange:
        with self._disk():
            names = needed(self.workspace.pipeline.tables, mutation)
            held = self._hold(names, mutation.expected_versions)
            changed = mutate(held, mutation.statements, self._folder)
            return self._commit("mutate", changed, mutation.message)

    def load(
        self, name: str, file: Path, mode: Mode, expected: int | None, message: str | None
    ) -> WrittenChange:
        self._check_known(name)
        given = {} if expected is None else {name: expected}
        with self._disk():
            held = self._hold(needed_by_load(self.workspace.pipeline.tables, name, mode), given)
            found = load(held, name, file, mode, self._folder)
            changed = {} if found is None else {name: found}
            return self._commit("load", changed, message or f"{mode} {file.name}")

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._discard()
            raise TableWriteFailed(", ".join(self._opened) or "the tables", str(error)) from error

    # ---- current tables -------------------------------------------------------------------

    def _hold(self, names: set[str], expected: Mapping[str, int]) -> dict[str, Held]:
        """Open the current tables; raise VersionConflict if one is not at its expected version."""
        for name in expected:
            self._check_known(name)
        wanted = {
            name: self.workspace.pipeline.tables[name] for name in sorted(names | set(expected))
        }
        read: dict[str, tuple[Fragment, ...]] = {}

        def work(tx: Transaction) -> dict[str, Held]:
            held = {}
            settings = self.workspace.settings
            Pipelines(tx).place(settings.owner, str(settings.home), str(settings.warehouse_folder))
            for name, table in wanted.items():
                dataset = Datasets(tx).ensure(dataset_of(table, self.workspace.owner))
                self._datasets[name] = dataset
                if expected.get(name, dataset.ordinal) != dataset.ordinal:
                    raise VersionConflict(dataset.name, expected[name], dataset.ordinal)
                fragments = Fragments(tx).at(dataset.id, dataset.ordinal).values()
                paths = {f.id: tuple(self.workspace.warehouse.paths([f])) for f in fragments}
                held[name], read[name] = Held(table, paths), tuple(fragments)
            return held

        found = self.workspace.database.durably(work)
        # Check now: rows that are rewritten get new checksums, which would hide damage permanently.
        for name, fragments in read.items():
            self.workspace.warehouse.check(name, fragments)
        return found

    def _check_known(self, name: str) -> None:
        tables = self.workspace.pipeline.tables
        if name not in tables:
            raise NotFound("table", name, nearest(name, list(tables)))

    def _folder(self, name: str) -> Path:
        """Return the folder for a table's new files; the registry knows it before any file
        exists."""
        dataset = self._datasets[name]
        fragment = Fragment(id=uuid4(), dataset_id=dataset.id)
        self.workspace.database.durably(lambda tx: Fragments(tx).open(fragment, None))
        self._opened[name] = fragment
        faults.reach(Point.FRAGMENT_OPENED)
        return self.workspace.warehouse.fragment(dataset.id, fragment.id)

    # ---- commit ---------------------------------------------------------------------------

    def _commit(
        self, kind: str, changed: Mapping[str, Changed], message: str | None
    ) -> WrittenChange:
        if not changed:
            return WrittenChange(None, {})
        pinned = {d.id: d.ordinal for d in self._datasets.values()}
        changes = [
            Change(
                dataset_id=self._datasets[name].id,
                operation=Operation.MUTATE,
                adds=(self._prepared(name, change),) if change.files else (),
                removes=change.removed,
                expected=pinned.pop(self._datasets[name].id),
            )
            for name, change in changed.items()
        ]
        asked = Publication(
            key=uuid4(),
            kind=kind,
            actor=self.workspace.actor,
            owner=self.workspace.owner,
            changes=tuple(changes),
            reads=pinned,
            message=message,
            details={name: _counts(change) for name, change in changed.items()},
        )
        try:
            commit = self.workspace.database.durably(lambda tx: self._publish(tx, asked))
        except Conflict:
            self._discard()
            raise
        faults.reach(Point.COMMITTED)
        return WrittenChange(commit, changed)

    def _prepared(self, name: str, change: Changed) -> Fragment:
        dataset, opened = self._datasets[name], self._opened[name]
        files = self.workspace.warehouse.describe(change.files, dataset.id)
        digest = hashlib.sha256("".join(file.sha256 for file in files).encode()).hexdigest()
        whole = Fragment(id=opened.id, dataset_id=dataset.id, files=files, digest=digest)
        return described(self.workspace.warehouse, dataset, whole)

    def _publish(self, tx: Transaction, asked: Publication) -> Commit | None:
        names = {dataset.id: dataset.name for dataset in self._datasets.values()}
        for change in asked.changes:
            for fragment in change.adds:
                if not Fragments(tx).prepare(fragment, None):
                    raise FragmentGone(names[fragment.dataset_id])
        return publish(tx, self.workspace.warehouse, asked)

    def _discard(self) -> None:
        """Delete the files after a lost race or an error; what remains is left to `cleanup`."""
        for fragment in self._opened.values():
            place = self.workspace.warehouse.fragment(fragment.dataset_id, fragment.id)
            shutil.rmtree(place, ignore_errors=True)


def dataset_of(table: Table, owner: Owner) -> Dataset:
    return Dataset(
        id=UUID(int=0),
        name=table.name,
        kind=Kind.TABLE,
        owner=owner,
        producer=table.name,
        key_columns=table.key,
    )


def _counts(change: Changed) -> dict[str, int]:
    return {
        "inserted": change.rows_inserted,
        "updated": change.rows_updated,
        "deleted": change.rows_deleted,
    }
