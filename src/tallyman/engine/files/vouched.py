"""Recorded hashes of files in run folders, compared before a file's content is used.

The seal of a run has the sha256 of every file; a ledger has those of the files next to it. A file
without a recorded hash (the run has not ended) is read unchecked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallyman.domain.account import ledger_json
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.seal import Seal
from tallyman.engine.files.listing import hash_once
from tallyman.engine.files.run_folder import LEDGER
from tallyman.errors import NotFound, RunDamaged
from tallyman.errors.wording import first_line


@dataclass(frozen=True, slots=True)
class Vouched:
    """Hashes by full path. Paths are shown relative to `home`, so that no message contains a path
    of this machine.
    """

    home: Path
    hashes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def by_seal(cls, home: Path, folder: Path, seal: Seal) -> Vouched:
        """Take the hashes of a sealed run folder, and of the ledgers of results it reused."""
        found = {os.path.join(folder, name): digest for name, digest in seal.files.items()}
        reused = seal.facts.get("reused")
        for facts in reused.values() if isinstance(reused, dict) else ():
            if isinstance(facts, dict) and isinstance(facts.get("ledger"), str):
                found[os.path.join(home, str(facts["place"]), LEDGER)] = facts["ledger"]
        return cls(home, found)

    def knows(self, path: Path) -> bool:
        return str(path) in self.hashes

    def content(self, path: Path) -> bytes | None:
        """Read and check a file; None if it does not exist and has no recorded hash."""
        expected = self.hashes.get(str(path))
        try:
            found = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            if expected is None:
                return None
            raise self._gone(path, expected) from None
        except OSError as error:
            raise RunDamaged(self._shown(path), error.strerror or str(error)) from error
        if expected is not None:
            self._compare(path, hashlib.sha256(found).hexdigest(), expected)
        return found

    def json(self, path: Path) -> dict[str, Any] | None:
        """Read a JSON object; None if the file does not exist and has no recorded hash."""
        found = self.content(path)
        if found is None:
            return None
        try:
            return dict(json.loads(found))
        except (RecursionError, TypeError, ValueError) as error:
            reason = first_line(error, 160)
            raise RunDamaged(self._shown(path), f"it is not a JSON object: {reason}") from error

    def readable(self, path: Path) -> dict[str, Any] | None:
        """Read like `json`, but return None for a broken file without a recorded hash."""
        try:
            return self.json(path)
        except RunDamaged:
            if self.knows(path):
                raise
            return None

    def ledger(self, place: Path) -> StoredLedger:
        """Read the ledger of a target; NotFound if it has none."""
        found = self.json(place / LEDGER)
        if found is None:
            raise NotFound("ledger in", place.name)
        try:
            return ledger_json.of_json(found)
        except ValueError as error:
            raise RunDamaged(self._shown(place / LEDGER), str(error)) from error

    def check(self, place: Path, *below: str) -> None:
        """Check all files of a target in these folders: none is missing, added, or different from
        the ledger's list. The ledger of a failed target may list no files.
        """
        listed = ledger_json.files_listed(self.readable(place / LEDGER))
        if listed is None:
            return
        wanted = {name for name in listed if name.startswith(tuple(f"{b}/" for b in below))}
        self._check_files({place / name: str(listed[name]) for name in sorted(wanted)})
        for path in sorted(_files(place, below)):
            if os.path.relpath(path, place) not in wanted:
                raise RunDamaged(self._shown(path), "the run wrote no such file")

    def _check_files(self, files: Mapping[Path, str]) -> None:
        for path, expected in files.items():
            if not path.is_file():  # reading from a pipe would wait forever
                raise self._gone(path, expected)
        try:
            found = hash_once([str(path) for path in files])
        except OSError as error:
            shown = self._shown(Path(error.filename)) if error.filename else "a file"
            raise RunDamaged(shown, error.strerror or str(error)) from error
        for (path, expected), digest in zip(files.items(), found, strict=True):
            self._compare(path, digest, expected)

    def _compare(self, path: Path, found: str, expected: str) -> None:
        if found != expected:
            reason = f"sha256 {found[:12]}…, expected {expected[:12]}…"
            raise RunDamaged(self._shown(path), reason)

    def _gone(self, path: Path, expected: str) -> RunDamaged:
        return RunDamaged(self._shown(path), f"no such file, expected sha256 {expected[:12]}…")

    def _shown(self, path: Path) -> str:
        return os.path.relpath(path, self.home)


def _files(place: Path, below: tuple[str, ...]) -> Iterator[Path]:
    for folder in below:
        yield from (path for path in (place / folder).rglob("*") if not path.is_dir())
