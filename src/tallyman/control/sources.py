"""Backward: the keys behind a row, from evidence, or by a replay whose digests must agree."""

from __future__ import annotations

from collections.abc import Mapping

from tallyman.control.again import Again
from tallyman.control.replay import replayed
from tallyman.domain.ledger import PROOF
from tallyman.engine.behind import contributing_keys
from tallyman.errors import NotFound, RowsUnaccountedFor


def source_keys(again: Again, row: Mapping[str, str]) -> list[str]:
    """Spark starts only for a run that kept digests instead of keys."""
    ledger = again.ledger
    if not (again.place / "output").is_dir():
        raise NotFound(f"output of {again.target} in run", str(again.run["run_id"]))
    if ledger["verification"]["proof_method"] == PROOF:
        return contributing_keys(again.place, ledger, row)
    with replayed(again.asset, again.plan, again.inputs, ledger, again.place) as replay:
        if replay.broken:
            raise RowsUnaccountedFor(str(again.target), replay.broken, 0, 0)
        return contributing_keys(replay.folder, ledger, row)
