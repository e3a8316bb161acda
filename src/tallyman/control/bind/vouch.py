"""The seal that vouches for the files of a run folder."""

from __future__ import annotations

from pathlib import Path

from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.seal import Seal
from tallyman.engine.files.run_folder import SEAL
from tallyman.engine.files.sealed import content_of, is_set_aside
from tallyman.engine.files.vouched import Vouched
from tallyman.registry.database import Transaction
from tallyman.registry.seals import Seals
from tallyman.settings import Settings


def vouched(tx: Transaction, settings: Settings, run: RunRecord | None, folder: Path) -> Vouched:
    """Return the recorded hashes of a run's files: from the registry's seal, or, for a run copied
    from elsewhere, from its own seal. Return no hashes if the run was never sealed or was resumed
    after its last seal."""
    body = content_of(folder / SEAL)
    if run is not None:
        rows = Seals(tx).of_run(run.id)
        sealed = str(rows[0]["body"]).encode() if rows else None
        body = None if sealed and body is None and is_set_aside(folder, sealed) else sealed
    seal = Seal.if_whole(body) if body else None
    return Vouched(settings.home) if seal is None else Vouched.by_seal(settings.home, folder, seal)
