"""The warehouse: where the files of all datasets are. Ids only, never a name."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from pyarrow import parquet as pq

from tallyman.domain.dataset import DataFile, Fragment
from tallyman.engine.durable import sync
from tallyman.engine.files import sha256

ORG = "default"
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class Warehouse:
    root: Path

    def dataset(self, dataset: UUID) -> Path:
        return self.root / "org" / ORG / "dataset" / str(dataset)

    def fragment(self, dataset: UUID, fragment: UUID) -> Path:
        """What a version added has a folder of its own."""
        return self.dataset(dataset) / "version" / str(fragment)

    def paths(self, fragments: Sequence[Fragment]) -> list[str]:
        return [str(self.dataset(f.dataset_id) / file.path) for f in fragments for file in f.files]

    def has(self, fragment: Fragment) -> bool:
        """Whether its files are there and as long as they were; `verify` looks closer."""
        root = self.dataset(fragment.dataset_id)
        try:
            return all((root / f.path).stat().st_size == f.bytes for f in fragment.files)
        except OSError:
            return False

    def take(
        self, hashed: Mapping[Path, str], dataset: UUID, fragment: UUID
    ) -> tuple[DataFile, ...]:
        """Published by reference: a second name for the same bytes, where the disk allows it."""
        place = self.fragment(dataset, fragment)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for file in hashed:
            _link(file, place / file.name)
        return self._described({place / f.name: hash_ for f, hash_ in hashed.items()}, dataset)

    def describe(self, files: Sequence[Path], dataset: UUID) -> tuple[DataFile, ...]:
        """Of files that were written in their place."""
        return self._described({file: sha256(str(file)) for file in files}, dataset)

    def _described(self, hashed: Mapping[Path, str], dataset: UUID) -> tuple[DataFile, ...]:
        """What is recorded of files that are whole; they are on the disk when this returns."""
        root = self.dataset(dataset)
        above = [place for place in root.parents if place.is_relative_to(self.root)]
        sync(*hashed, *({file.parent for file in hashed}), root, *above)
        return tuple(
            DataFile(
                str(file.relative_to(root)),
                digest,
                file.stat().st_size,
                pq.read_metadata(file).num_rows,
            )
            for file, digest in sorted(hashed.items())
        )


def _link(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copyfile(file, name)
