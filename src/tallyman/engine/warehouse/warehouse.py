"""The warehouse: the files of all datasets, by id, never by name."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from tallyman.domain.version.dataset import DataFile, Fragment
from tallyman.domain.version.owner import Owner
from tallyman.engine.files.durable import sync
from tallyman.engine.files.intact import Expected, check
from tallyman.engine.files.listing import fresh_sha256, known_sha256, remember
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:
    pq = OnDemand("pyarrow.parquet")

NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class Warehouse:
    root: Path
    owner: Owner

    def dataset(self, dataset: UUID) -> Path:
        return self.root / "org" / self.owner.org / "dataset" / str(dataset)

    def of(self, fragment: Fragment) -> Path:
        """Return the folder of the fragment's dataset, also if another pipeline produces it."""
        if fragment.owner == self.owner or fragment.owner is None or fragment.warehouse is None:
            return self.dataset(fragment.dataset_id)
        return Warehouse(Path(fragment.warehouse), fragment.owner).dataset(fragment.dataset_id)

    def fragment(self, dataset: UUID, fragment: UUID) -> Path:
        """Return the folder of one fragment."""
        return self.dataset(dataset) / "version" / str(fragment)

    def paths(self, fragments: Sequence[Fragment]) -> list[str]:
        return [str(self.of(f) / file.path) for f in fragments for file in f.files]

    def expected(self, fragments: Sequence[Fragment]) -> list[Expected]:
        """List the data files of fragments with their recorded sizes and hashes."""
        return [_expected(self.of(f), file) for f in fragments for file in f.files]

    def expected_metadata(
        self, fragments: Sequence[Fragment], version: Sequence[DataFile]
    ) -> list[Expected]:
        """List the metadata files of a version: the Iceberg manifest of each fragment with rows,
        and the files of the version itself.
        """
        found = []
        for fragment in fragments:
            if known := fragment.iceberg_manifest:
                file = DataFile(known["path"], known["sha256"], known["length"])
                found.append(_expected(self.of(fragment), file))
        return found + [_expected(self.of(fragments[0]), file) for file in version]

    def check(self, name: str, fragments: Sequence[Fragment]) -> None:
        """Raise DatasetDamaged unless every file is as recorded; a process reads each file once."""
        check(name, self.expected(fragments))

    def has(self, fragment: Fragment) -> bool:
        """True if the files exist with the recorded sizes; `verify` also compares content."""
        root = self.of(fragment)
        try:
            return all((root / f.path).stat().st_size == f.bytes for f in fragment.files)
        except OSError:
            return False

    def take(
        self, hashed: Mapping[Path, str], dataset: UUID, fragment: UUID
    ) -> tuple[DataFile, ...]:
        """Link files of a run into the dataset, or copy them where the disk has no hard links."""
        place = self.fragment(dataset, fragment)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for file in hashed:
            _link(file, place / file.name)
        return self._described({place / f.name: hash_ for f, hash_ in hashed.items()}, dataset)

    def describe(self, files: Sequence[Path], dataset: UUID) -> tuple[DataFile, ...]:
        """Describe files that were written in the warehouse itself."""
        return self._described({file: fresh_sha256(str(file)) for file in files}, dataset)

    def described_metadata(self, dataset: UUID, version: UUID) -> tuple[DataFile, ...]:
        """Describe the files that `write_version` has just written."""
        root = self.dataset(dataset)
        files = sorted((root / "metadata").glob(f"{version}.*"))
        return tuple(
            DataFile(str(file.relative_to(root)), fresh_sha256(str(file)), file.stat().st_size)
            for file in files
        )

    def _described(self, hashed: Mapping[Path, str], dataset: UUID) -> tuple[DataFile, ...]:
        """Describe complete files; they are synced to the disk when this returns."""
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


def _expected(root: Path, file: DataFile) -> Expected:
    return Expected(str(root / file.path), file.path, file.sha256, file.bytes, file.rows)


def _link(file: Path, name: Path) -> None:
    digest = known_sha256(str(file))
    try:
        os.link(file, name)
        if digest is not None:  # a link changes the time by which the file was known
            remember(str(name), digest)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copyfile(file, name)
