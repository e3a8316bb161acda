"""The seal that vouches for the files of a run folder."""

from __future__ import annotations

from pathlib import Path

from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.seal import Seal
from tallyman.engine.files.run_folder import SEAL
from tallyman.engine.files.vouched import Vouched
from tallyman.registry.database import Transaction
from tallyman.registry.seals import Seals
from tallyman.settings import Settings


def vouched(tx: Transaction, settings: Settings, run: RunRecord | None, folder: Path) -> Vouched:
    """Return the recorded hashes of a run's files: from the registry's seal, or, for a run copied
    from elsewhere, from its own seal. Return no hashes if the run was never sealed or was resumed
    after its last seal."""
    if run is None:
        text = _bytes(folder / SEAL)
    else:
        rows = Seals(tx).of_run(run.id)
        text = str(rows[0]["body"]).encode() if rows else None
        if text is not None and _went_on(folder, text):
            text = None
    seal = None if text is None else _seal(text)
    return Vouched(settings.home) if seal is None else Vouched.by_seal(settings.home, folder, seal)


def _seal(text: bytes) -> Seal | None:
    """Parse a seal; None if it is damaged, which `verify` reports."""
    try:
        return Seal.of_text(text)
    except ValueError:
        return None


def _went_on(folder: Path, body: bytes) -> bool:
    """True if a resume moved the seal to `attempts/`: the files may have changed since that
    seal."""
    if (folder / SEAL).exists():
        return False
    return any(_bytes(path) == body for path in folder.glob(f"attempts/*/{SEAL}"))


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
