"""Tables kept in a temporary folder, changed the way the publisher would change them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

from pyarrow import parquet as pq

from tallyman.domain.version.mutation import Mutation
from tallyman.domain.version.table import Table
from tallyman.engine.table.load import Mode, load
from tallyman.engine.table.mutation import mutate
from tallyman.engine.table.state import Changed, Held

PERSON = Table.of("person", "name string, age int, born date", "name")
KNOWS = Table.of(
    "knows",
    "src string not null, dst string not null",
    ["src", "dst"],
    {"src": "person.name", "dst": "person.name"},
)


class Shelf:
    """`folders` tells for which tables something was about to be written."""

    def __init__(self, root: Path, *tables: Table) -> None:
        self.root = root
        self.held = {table.name: Held(table, {}) for table in tables}
        self.folders: list[str] = []
        self._count = 0

    def mutate(self, *statements: Mapping[str, object]) -> dict[str, Changed]:
        made = mutate(self.held, Mutation.of(list(statements)).statements, self._folder)
        for dataset, changed in made.items():
            self._publish(dataset, changed)
        return made

    def load(self, dataset: str, file: Path, mode: Mode) -> Changed | None:
        made = load(self.held, dataset, file, mode, self._folder)
        if made is not None:
            self._publish(dataset, made)
        return made

    def rows(self, dataset: str) -> list[dict[str, object]]:
        files = [file for paths in self.held[dataset].fragments.values() for file in paths]
        rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        return sorted(rows, key=repr)

    def fragments(self, dataset: str) -> set[UUID]:
        return set(self.held[dataset].fragments)

    def _folder(self, dataset: str) -> Path:
        self.folders.append(dataset)
        self._count += 1
        return self.next_folder(dataset, 0)

    def next_folder(self, dataset: str, ahead: int = 1) -> Path:
        return self.root / f"{self._count + ahead}" / dataset

    def _publish(self, dataset: str, changed: Changed) -> None:
        old = self.held[dataset]
        kept = {i: files for i, files in old.fragments.items() if i not in changed.removed}
        if changed.files:
            kept[uuid4()] = tuple(str(file) for file in changed.files)
        self.held[dataset] = Held(old.table, kept)


def insert(into: str, *rows: Mapping[str, object]) -> Mapping[str, object]:
    return {"insert": {"into": into, "rows": list(rows)}}


def update(dataset: str, values: Mapping[str, object], where: object) -> Mapping[str, object]:
    return {"update": {"dataset": dataset, "set": values, "where": where}}


def delete(dataset: str, where: object) -> Mapping[str, object]:
    return {"delete": {"from": dataset, "where": where}}


def names(rows: Sequence[Mapping[str, object]]) -> list[object]:
    return sorted(str(row["name"]) for row in rows)
