"""Check a sealed run: find files that changed since it was sealed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tallyman.control.seal.keys import public_keys
from tallyman.control.seal.signature import problem_of
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.seal import Seal
from tallyman.engine.files.listing import sha256
from tallyman.engine.files.run_folder import CONFIG, LEDGER, MANIFEST, SEAL
from tallyman.engine.files.sealed import binds, content_of, files_in, is_set_aside
from tallyman.registry.database import Transaction
from tallyman.registry.seals import Seals
from tallyman.settings import Settings

FIRST = (SEAL, MANIFEST, CONFIG, LEDGER)
"""Report these files first, in this order: each one vouches for those after it."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    file: str
    then: str | None
    """Its sha256 when sealed; None if it did not exist."""
    now: str | None
    """Its sha256 now; None if it does not exist."""

    def to_json(self) -> dict[str, str | None]:
        return {"file": self.file, "then": self.then, "now": self.now}

    def __str__(self) -> str:
        return f"{self.file}: {_short(self.then)} then, {_short(self.now)} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The facts about a run that are kept outside its folder."""

    home: Path
    keys: Mapping[str, Ed25519PublicKey]
    rows: Sequence[Mapping[str, Any]] = ()
    """Its seals in the registry, newest first."""
    registered: bool = False
    signed_since: int | None = None
    """The number of the project's first signed seal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The state of a run's files. `seal` is None if no seal covers the run as it is now."""

    seal: Seal | None
    changes: tuple[ChangedFile, ...] = ()
    problems: tuple[str, ...] = ()
    files: int = 0
    signed_by: str | None = None


@dataclass
class _Found:
    changes: list[ChangedFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def witness(tx: Transaction, settings: Settings, run: RunRecord | None) -> Witness:
    return Witness(
        home=settings.home,
        keys=public_keys(settings.home),
        rows=Seals(tx).of_run(run.id) if run else (),
        registered=run is not None,
        signed_since=Seals(tx).signed_since(settings.owner) if run else None,
    )


def look(folder: Path, given: Witness) -> Sealed:
    """Check the folder, reading every file once. No file is assumed to be well-formed."""
    found = _Found()
    seal = _seal(folder, given, found)
    now = _hashes(folder)
    found.changes += _changed(folder, seal, now)
    if seal is not None:
        for name, reused in _reused(seal):
            _follow(folder, given.home, name, reused, found)
        signature = _unsigned(seal, given) or problem_of(seal, given.keys)
        found.problems += [f"{SEAL}: {signature}"] if signature else []
    else:
        signature = None
    good = seal is not None and seal.signature is not None and signature is None
    return Sealed(
        seal=seal,
        changes=tuple(sorted(found.changes, key=_rank)),
        problems=tuple(found.problems),
        files=len(now) + 1,
        signed_by=seal.signature.key if good and seal and seal.signature else None,
    )


def _rank(changed: ChangedFile) -> tuple[int, int, str]:
    name = changed.file
    if name in FIRST:
        return (0, FIRST.index(name), name)
    return (1 if os.path.basename(name) == LEDGER else 2, 0, name)


# ---- the seal itself --------------------------------------------------------------------------


def _seal(folder: Path, given: Witness, found: _Found) -> Seal | None:
    """Return the seal from the registry; for a run copied from elsewhere, from its folder."""
    there = content_of(folder / SEAL)
    if not given.rows:
        return _own(there, given.registered, found)
    row = given.rows[0]
    then, now = str(row["body"]).encode(), there
    if now is None and is_set_aside(folder, then):
        found.problems.append(
            "not sealed: the run was resumed after its last seal and has not ended"
        )
        return None
    if now != then:
        changed = ChangedFile(SEAL, _sha256(then), None if now is None else _sha256(now))
        found.changes.append(changed)
    seal = Seal.if_whole(row["body"])
    if seal is None or row["hash"] != f"sha256:{_sha256(then)}":
        found.problems.append("the registry's seal of the run was changed: `tallyman verify chain`")
    return seal


def _own(there: bytes | None, registered: bool, found: _Found) -> Seal | None:
    if there is None:
        why = "it has not ended" if registered else "there is no seal.json"
        found.problems.append(f"not sealed: {why}")
        return None
    seal = Seal.if_whole(there)
    if seal is None or seal.text.encode() != there:
        found.changes.append(ChangedFile(SEAL, None, _sha256(there)))
        found.problems.append("seal.json is not a valid seal")
    elif registered:
        found.problems.append("seal.json is not in the registry: `tallyman verify chain`")
    return seal


def _unsigned(seal: Seal, given: Witness) -> str | None:
    if seal.signature is not None:
        return None
    since = given.signed_since
    if since is not None and seal.ordinal > since:
        return f"no signature, although the project's seals are signed since no. {since}"
    if not given.registered and given.keys:
        return "no signature, and nothing else vouches for a copied run"
    return None


# ---- the files --------------------------------------------------------------------------------


def _changed(folder: Path, seal: Seal | None, now: Mapping[str, str]) -> Iterator[ChangedFile]:
    """Compare with the seal, which lists every file; without one, with the ledgers."""
    if seal is None:
        yield from _changed_by_ledgers(folder, now)
        return
    for name in sorted(set(seal.files) | set(now)):
        if now.get(name) != seal.files.get(name):
            yield ChangedFile(name, seal.files.get(name), now.get(name))


def _changed_by_ledgers(folder: Path, now: Mapping[str, str]) -> Iterator[ChangedFile]:
    then, judged = dict[str, str](), set[str]()
    for name in (name for name in now if os.path.basename(name) == LEDGER):
        place = os.path.dirname(name)
        if (files := binds(folder / name)) is not None:
            then |= {os.path.join(place, file): digest for file, digest in files.items()}
            then[name] = now[name]
            judged.add(place)
    for name in sorted(set(then) | set(now)):
        covered = name in then or judged & {str(parent) for parent in Path(name).parents}
        if covered and now.get(name) != then.get(name):
            yield ChangedFile(name, then.get(name), now.get(name))


def _reused(seal: Seal) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reused = seal.facts.get("reused")
    for name, facts in (reused if isinstance(reused, dict) else {}).items():
        if isinstance(facts, dict) and isinstance(facts.get("place"), str):
            yield name, facts


def _follow(folder: Path, home: Path, name: str, facts: Mapping[str, Any], found: _Found) -> None:
    """Check a result that another run made: its ledger against the seal, and its files against the
    ledger."""
    place, then = home / facts["place"], facts.get("ledger")
    if not isinstance(then, str):
        found.problems.append(
            f"{name}: reused, but its folder was already missing when this run was sealed"
        )
        return
    if not place.is_dir():
        found.problems.append(f"{name}: reused from {facts['place']}, which is missing")
        return
    now = _hashes(place)
    listed = {LEDGER: then}
    below = binds(place / LEDGER) if now.get(LEDGER) == then else _sealed_there(place, then)
    if below is not None:
        listed |= below
    elif now.get(LEDGER) != then:
        now = {n: h for n, h in now.items() if n == LEDGER}
        found.problems.append(
            f"{facts['place']}: its ledger was changed, so its files could not be checked"
        )
    shown = os.path.relpath(place, folder)
    found.changes += [
        ChangedFile(f"{shown}/{file}", listed.get(file), now.get(file))
        for file in set(listed) | set(now)
        if listed.get(file) != now.get(file)
    ]


def _sealed_there(place: Path, ledger: str) -> dict[str, str] | None:
    """Return the file hashes from the seal of the run that made the result, if its ledger was
    changed; None if no seal covers the same ledger."""
    for folder in place.parents:
        there = content_of(folder / SEAL)
        if there is None:
            continue
        seal = Seal.if_whole(there)
        inside = f"{place.relative_to(folder)}/"
        if seal is None or seal.files.get(f"{inside}{LEDGER}") != ledger:
            return None
        return {n.removeprefix(inside): h for n, h in seal.files.items() if n.startswith(inside)}
    return None


def _hashes(folder: Path) -> dict[str, str]:
    """Hash every file except the seal; for an unreadable file return the reason instead."""
    paths = list(files_in(folder))
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        hashes = pool.map(_hash, paths)
        return {str(p.relative_to(folder)): h for p, h in zip(paths, hashes, strict=True)}


def _hash(path: Path) -> str:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "not a file"  # reading from a pipe could block forever
        return sha256(str(path))
    except OSError as error:
        return f"unreadable ({error.strerror})"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _short(digest: str | None) -> str:
    return "absent" if digest is None else f"{digest[:12]}…" if len(digest) == 64 else digest
