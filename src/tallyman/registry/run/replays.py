"""Lines of replays: a result, the replays of its rejections, and their replays."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tallyman.domain.pipeline.target import Target
from tallyman.registry.database import Transaction

LINE = """
    WITH RECURSIVE up (id, replays) AS (
        SELECT id, replays FROM materializations WHERE id = %(id)s
      UNION ALL
        SELECT m.id, m.replays FROM up JOIN materializations m ON m.id = up.replays
    ), line (id) AS (
        SELECT id FROM up WHERE replays IS NULL
      UNION ALL
        SELECT m.id FROM line JOIN materializations m ON m.replays = line.id
        WHERE m.status = 'success'
    )
    SELECT m.id, m.replays, m.run_id, r.name AS run, m.location, f.digest,
           vf.fragment_id IS NOT NULL AS ever_current, coalesce(vf.current, false) AS current
    FROM line JOIN materializations m ON m.id = line.id JOIN runs r ON r.id = m.run_id
    LEFT JOIN fragments f ON f.id = m.fragment_id
    LEFT JOIN LATERAL (
        SELECT fragment_id, bool_or(until IS NULL) AS current FROM version_fragments
        WHERE fragment_id = m.fragment_id GROUP BY fragment_id) vf ON true
    ORDER BY m.seq
"""
BEGUN = """
    UPDATE materializations SET replays = %(replays)s, adds_to = %(adds_to)s, updated_at = now()
    WHERE run_id = %(run)s AND asset_name = %(asset)s
      AND coalesce(partition, '') = coalesce(%(partition)s, '')
"""
MADE_BY = """
    SELECT m.id, r.name FROM materializations m JOIN runs r ON r.id = m.run_id
    WHERE m.id = ANY(%(ids)s) ORDER BY m.completion DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayLink:
    """One result in a line. `ever_current`: its rows were published once; `current`: they still
    are."""

    id: UUID
    replays: UUID | None
    run_id: UUID
    run: str
    location: str
    digest: str | None
    ever_current: bool
    current: bool


class Replays:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def mark(self, run: UUID, target: Target, *, replays: UUID, adds_to: UUID | None) -> None:
        """Mark the run's target as a replay of that result's rejections."""
        given = {"run": run, "asset": target.asset, "partition": target.partition}
        self.tx.execute(BEGUN, given | {"replays": replays, "adds_to": adds_to})

    def line(self, result: UUID) -> list[ReplayLink]:
        """Return the whole line that contains the result, oldest first."""
        return [ReplayLink(**row) for row in self.tx.execute(LINE, {"id": result}).fetchall()]

    def runs_of(self, results: list[UUID]) -> list[str]:
        """Name the runs that made these results, newest first."""
        rows = self.tx.execute(MADE_BY, {"ids": results}).fetchall()
        return list(dict.fromkeys(row["name"] for row in rows))


def taken_back(line: list[ReplayLink]) -> set[UUID]:
    """Return the replays whose rows a rollback removed: the rejections they replayed are open
    again.

    A replay that was itself replayed still counts through its successor.
    """
    gone: set[UUID] = set()
    if not any(link.current for link in line):
        return gone  # a newer result replaced the whole line
    for link in line:
        if link.replays and link.ever_current and not any(x.current for x in _below(link, line)):
            gone.add(link.run_id)
    return gone


def _below(link: ReplayLink, line: list[ReplayLink]) -> list[ReplayLink]:
    found = [link]
    for other in line:  # oldest first: a replay comes after its original
        if other.replays in {x.id for x in found}:
            found.append(other)
    return found
