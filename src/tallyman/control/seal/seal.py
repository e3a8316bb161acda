"""Seal a run that ended: hash all its files, and chain the seal to the one before it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.history.seal import Seal
from tallyman.domain.version.commit import Commit
from tallyman.domain.version.owner import Owner
from tallyman.engine.files.listing import sha256
from tallyman.engine.files.run_folder import LEDGER, SEAL, RunFolder, write_text
from tallyman.engine.files.sealed import hashes_for_seal
from tallyman.registry.database import Database
from tallyman.registry.seals import Seals


def seal_of(home: Path, run: RunRecord, result: RunResult, rows: Iterable[Materialization]) -> Seal:
    """Build the seal of a run whose files are all in place; chain and signature are added with the
    registry row."""
    folder = home / run.folder
    return Seal(
        project=run.owner.project,
        run_id=run.name,
        openlineage_run_id=str(run.id),
        status=result.status.value,
        sealed_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        files=hashes_for_seal(folder),
        facts={"reused": _reused(home, rows), **_published_versions(result.commit)},
    )


def _reused(home: Path, rows: Iterable[Materialization]) -> dict[str, Any]:
    """List results that other runs made, each bound by the hash of its ledger."""
    found = {}
    for row in rows:
        if row.status is Status.SKIPPED and row.location:
            place = Path(row.location).parent
            ledger = home / place / LEDGER
            found[str(row.target)] = {
                "place": str(place),
                "content_digest": row.content_digest,
                "ledger": sha256(str(ledger)) if ledger.exists() else None,
            }
    return found


def _published_versions(commit: Commit | None) -> dict[str, Any]:
    if commit is None:
        return {"commit": None, "published": {}}
    return {
        "commit": str(commit.id),
        "published": {move.dataset: move.ordinal for move in commit.moves},
    }


def place(database: Database, home: Path, owner: Owner) -> None:
    """Write seal.json for every sealed run that lacks it, for example because its process died."""
    for row in database.durably(lambda tx: Seals(tx).not_placed(owner)):
        folder, ordinal = home / row["folder"], row["ordinal"]
        newest = database.durably(lambda tx, run=row["run_id"]: Seals(tx).of_run(run))[0]
        # Another process may be writing it, or the folder may be read-only: the seal is in the
        # registry, and the next command tries again.
        with contextlib.suppress(OSError):
            if folder.is_dir() and newest["ordinal"] == ordinal:
                _put(folder, row["body"])
            database.durably(lambda tx, ordinal=ordinal: Seals(tx).placed(owner, ordinal))


def _put(folder: Path, body: str) -> None:
    path = folder / SEAL
    if path.exists() and path.read_bytes() == body.encode():
        return
    RunFolder(folder).set_aside(SEAL, 1)
    write_text(path, body)
