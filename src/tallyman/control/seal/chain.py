"""Check the chain of a project's seals from the first to the last, and find the first broken
link."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tallyman.control.seal.keys import public_keys
from tallyman.control.seal.signature import problem_of
from tallyman.domain.definition.canonical_json import hashed
from tallyman.domain.history.seal import Seal
from tallyman.engine.files.run_folder import SEAL
from tallyman.errors import UsageError
from tallyman.registry.database import Database
from tallyman.registry.seals import Seals
from tallyman.settings import Settings

HASH = re.compile(r"(sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """The first broken link of a chain."""

    ordinal: int
    run: str | None
    what: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    project: str
    seals: int
    signed: int
    head: tuple[int, str] | None
    """Ordinal and hash of the last seal, to be noted elsewhere."""
    broken: BrokenLink | None = None
    gone: list[str] = field(default_factory=list)
    """Runs whose folder is missing: their seals were checked against the registry only."""

    def to_json(self) -> dict[str, object]:
        return {
            "project": self.project,
            "intact": self.broken is None,
            "seals": self.seals,
            "signed": self.signed,
            "head": {"ordinal": self.head[0], "hash": self.head[1]} if self.head else None,
            "broken": asdict(self.broken) if self.broken else None,
            "gone": self.gone,
        }


def check_chain(database: Database, settings: Settings, head: str | None = None) -> Chain:
    """Check all seals. `head` is a hash noted earlier, which must be in the chain."""
    noted = _noted(head) if head is not None else None
    rows = database.durably(lambda tx: Seals(tx).chain(settings.owner))
    walk = _ChainWalk(rows, settings.home, public_keys(settings.home))
    broken = next(walk.broken(), None)
    if broken is None and noted is not None and noted not in {row["hash"] for row in rows}:
        last = f"{rows[-1]['hash']} is the last" if rows else "no seal"
        what = "the chain was cut off or rewritten since this hash was noted"
        broken = BrokenLink(len(rows) + 1, None, what, noted, last)
    return Chain(
        project=settings.name,
        seals=len(rows),
        signed=sum(row["key_id"] is not None for row in rows),
        head=(rows[-1]["ordinal"], rows[-1]["hash"]) if rows else None,
        broken=broken,
        gone=list(dict.fromkeys(row["run"] for row in rows if walk.is_gone(row))),
    )


def _noted(text: str) -> str:
    found = HASH.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"--head: expected the sha256 of a seal, 64 hex digits, not {text!r}")
    return f"sha256:{found[2]}"


class _ChainWalk:
    """One pass over the seals; each seal and each seal file is hashed once."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        home: Path,
        keys: Mapping[str, Ed25519PublicKey],
    ) -> None:
        self.rows, self.home, self.keys = rows, home, keys
        self.newest: dict[UUID, int] = {row["run_id"]: row["ordinal"] for row in rows}
        self.of_run: dict[UUID, set[str]] = {}
        for row in rows:
            self.of_run.setdefault(row["run_id"], set()).add(row["hash"])
        self.files: dict[UUID, dict[str, str]] = {}

    def broken(self) -> Iterator[BrokenLink]:
        previous: str | None = None
        signed = False
        for number, row in enumerate(self.rows, start=1):
            if row["ordinal"] != number:
                found = f"no. {row['ordinal']}, of run {row['run']}"
                yield BrokenLink(number, None, "a seal is missing", f"no. {number}", found)
            content = hashed(row["body"])
            if content != row["hash"]:
                yield _broken(row, "the seal in the registry was changed", row["hash"], content)
            try:
                seal = Seal.of_text(row["body"])
            except ValueError as error:
                yield _broken(row, "what the registry has is not a seal", "a seal", error)
                return
            yield from self._link(row, seal, previous)
            yield from self._signature(row, seal, signed)
            previous, signed = row["hash"], signed or row["key_id"] is not None
        # Check the folders last: only an intact chain shows which seal of a run is the newest.
        for row in self.rows:
            yield from self._file(row)

    def _link(
        self, row: Mapping[str, Any], seal: Seal, previous: str | None
    ) -> Iterator[BrokenLink]:
        """Compare a registry row with the row before it and with its own seal."""
        if row["previous"] != previous:
            what = "it does not follow the seal before it"
            yield _broken(row, what, previous, row["previous"])
        key = seal.signature.key if seal.signature else None
        pairs = {
            "the project": (row["project"], seal.project),
            "the number of the seal": (row["ordinal"], seal.ordinal),
            "the seal before it": (previous, seal.previous),
            "the run it seals": (str(row["run_id"]), seal.openlineage_run_id),
            "the name of the run it seals": (row["run"], seal.run_id),
            "the key that signed it": (row["key_id"], key),
        }
        for what, (expected, found) in pairs.items():
            if expected != found:
                yield _broken(row, f"{what} differs in the seal", expected, found)

    def _signature(self, row: Mapping[str, Any], seal: Seal, signed: bool) -> Iterator[BrokenLink]:
        if seal.signature is None and signed:
            what = "it is not signed, and an earlier one is"
            yield _broken(row, what, "a signature", "none")
        elif (problem := problem_of(seal, self.keys)) is not None:
            yield _broken(row, "its signature is not valid", "one by a key in keys/", problem)

    def _file(self, row: Mapping[str, Any]) -> Iterator[BrokenLink]:
        """Check the run folder: the newest seal is in it, and older ones are under `attempts`. A
        missing older one was never written, because the next seal came first; `verify RUN` reports
        other gaps."""
        if self.is_gone(row):
            return
        files = self._files(row)
        strange = [name for name in files if files[name] not in self.of_run[row["run_id"]]]
        top = files.get(SEAL)
        newest = self.newest[row["run_id"]] == row["ordinal"]
        if newest and top not in (None, row["hash"]):
            yield _broken(
                row, f"{row['folder']}/{SEAL} is not the seal in the registry", row["hash"], top
            )
        elif newest and row["hash"] not in files.values():
            yield _broken(row, f"{row['folder']}/{SEAL} is missing", row["hash"], "no file")
        elif newest and strange:
            what = f"{row['folder']}/{strange[0]} is not a seal of this run"
            yield _broken(row, what, "a seal of the registry", files[strange[0]])

    def is_gone(self, row: Mapping[str, Any]) -> bool:
        return not self._files(row) and not (self.home / row["folder"]).is_dir()

    def _files(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return the hash of each seal file in the run folder, by name."""
        run, folder = row["run_id"], self.home / row["folder"]
        if run not in self.files:
            self.files[run] = {
                str(path.relative_to(folder)): _hash(path)
                for path in (folder / SEAL, *sorted(folder.glob(f"attempts/*/{SEAL}")))
                if path.is_file()
            }
        return self.files[run]


def _hash(path: Path) -> str:
    try:
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        return f"unreadable ({error.strerror})"


def _broken(row: Mapping[str, Any], what: str, expected: object, found: object) -> BrokenLink:
    shown = ("none" if one is None else str(one) for one in (expected, found))
    return BrokenLink(row["ordinal"], row["run"], what, *shown)
