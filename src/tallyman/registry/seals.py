"""Seals: one append-only chain per pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

from tallyman.domain.history.seal import Seal
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

# Until the transaction ends, nobody else adds to the chain: no two seals follow the same one.
ADDING = (
    "SELECT pg_advisory_xact_lock(x'7A110003'::integer, hashtext(%(org)s || '/' || %(project)s))"
)
LAST = """
    SELECT ordinal, hash FROM seals
    WHERE org = %(org)s AND project = %(project)s ORDER BY ordinal DESC LIMIT 1
"""
ADD = """
    INSERT INTO seals (org, project, ordinal, run_id, hash, previous, key_id, body)
    VALUES (%(org)s, %(project)s, %(ordinal)s, %(run)s, %(hash)s, %(previous)s, %(key)s, %(body)s)
"""
COLUMNS = """
    s.project, s.ordinal, s.run_id, r.name AS run, r.folder, s.hash, s.previous, s.key_id, s.body
"""
OF_RUN = f"""
    SELECT {COLUMNS} FROM seals s JOIN runs r ON r.id = s.run_id
    WHERE s.run_id = %(run)s ORDER BY s.ordinal DESC
"""
CHAIN = f"""
    SELECT {COLUMNS} FROM seals s JOIN runs r ON r.id = s.run_id
    WHERE s.org = %(org)s AND s.project = %(project)s ORDER BY s.ordinal
"""
NOT_PLACED = f"""
    SELECT {COLUMNS} FROM seals s JOIN runs r ON r.id = s.run_id
    WHERE s.org = %(org)s AND s.project = %(project)s AND NOT s.placed ORDER BY s.ordinal
"""
SIGNED_SINCE = """
    SELECT min(ordinal) AS ordinal FROM seals
    WHERE org = %(org)s AND project = %(project)s AND key_id IS NOT NULL
"""
# Compare the text: a body that somebody changed must not make every command fail.
LEFT_WAITING = """
    SELECT r.id FROM runs r
    CROSS JOIN LATERAL (SELECT body FROM seals s WHERE s.run_id = r.id
                        ORDER BY ordinal DESC LIMIT 1) AS last
    WHERE r.org = %(org)s AND r.project = %(project)s
      AND r.status NOT IN ('running', 'waiting_approval')
      AND EXISTS (SELECT FROM approvals a WHERE a.run_id = r.id)
      AND last.body LIKE '%%"status": "waiting_approval"%%'
    ORDER BY r.seq
"""
PLACED = """
    UPDATE seals SET placed = true
    WHERE org = %(org)s AND project = %(project)s AND ordinal = %(ordinal)s
"""


class Seals:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(
        self,
        owner: Owner,
        seal: Seal,
        run: UUID,
        sign: Callable[[Seal], Seal] = lambda seal: seal,
    ) -> Seal:
        """Add the seal to its pipeline's chain. If it is sent twice because a reply was lost, it is
        added once: `sealed_at` and the files identify it."""
        self.tx.execute(ADDING, owner.key)
        for row in self.of_run(run):
            # `verify` reports a row that somebody changed; it must not make the run fail.
            with contextlib.suppress(ValueError):
                found = Seal.of_text(row["body"])
                if (found.sealed_at, found.files) == (seal.sealed_at, dict(seal.files)):
                    return found
        row = self.tx.execute(LAST, owner.key).fetchone()
        added = sign(seal.after((row["ordinal"], row["hash"]) if row else None))
        given = owner.key | {
            "ordinal": added.ordinal,
            "run": run,
            "hash": added.hash,
            "previous": added.previous,
            "key": added.signature.key if added.signature else None,
            "body": added.text,
        }
        self.tx.execute(ADD, given)
        return added

    def placed(self, owner: Owner, ordinal: int) -> None:
        self.tx.execute(PLACED, owner.key | {"ordinal": ordinal})

    def not_placed(self, owner: Owner) -> list[dict[str, Any]]:
        """List seals whose process died before the file was in the run folder."""
        return self.tx.execute(NOT_PLACED, owner.key).fetchall()

    def signed_since(self, owner: Owner) -> int | None:
        """Return the number of the first signed seal of the chain."""
        row = self.tx.execute(SIGNED_SINCE, owner.key).fetchone()
        return row["ordinal"] if row else None

    def left_waiting(self, owner: Owner) -> list[UUID]:
        """List runs that were decided by a process that died before it sealed them again."""
        rows = self.tx.execute(LEFT_WAITING, owner.key).fetchall()
        return [row["id"] for row in rows]

    def of_run(self, run: UUID) -> list[dict[str, Any]]:
        """List the seals of a run, newest first; a resumed run has several."""
        return self.tx.execute(OF_RUN, {"run": run}).fetchall()

    def chain(self, owner: Owner) -> list[dict[str, Any]]:
        """List all seals of a pipeline, oldest first."""
        return self.tx.execute(CHAIN, owner.key).fetchall()
