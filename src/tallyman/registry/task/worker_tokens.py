"""Tokens of workers: stored as hashes, shown once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tallyman.domain.version.owner import Owner
from tallyman.errors import TokenNameTaken
from tallyman.registry.database import Transaction

PREFIX = "tmw_"
"""The first letters of a worker's token; tokens of users begin with `tm_`."""
ADD = """
    INSERT INTO worker_tokens (org, project, name, token_hash)
    VALUES (%(org)s, %(project)s, %(name)s, %(hash)s)
    ON CONFLICT (org, project, name) WHERE revoked_at IS NULL DO NOTHING
"""
FIND = """
    SELECT id, org, project, name FROM worker_tokens
    WHERE token_hash = %(hash)s AND revoked_at IS NULL
"""
REVOKE = """
    UPDATE worker_tokens SET revoked_at = clock_timestamp()
    WHERE org = %(org)s AND project = %(project)s AND name = %(name)s AND revoked_at IS NULL
"""
LIST = """
    SELECT name, created_at, revoked_at,
           (SELECT count(*) FROM tasks t
            WHERE t.org = w.org AND t.project = w.project AND t.status = 'Running'
              AND starts_with(t.worker, w.name || '/')) AS running
    FROM worker_tokens w WHERE org = %(org)s AND project = %(project)s
    ORDER BY created_at DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """Who calls, as its token says."""

    id: UUID
    owner: Owner
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token as far as it is known after it was given out."""

    name: str
    created_at: datetime
    revoked_at: datetime | None
    running: int
    """Tasks that a worker with this token is at work on."""


class WorkerTokens:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, owner: Owner, name: str) -> str:
        """Make a token and return it; only its hash is kept. Raises TokenNameTaken if another
        token has the name."""
        token = PREFIX + secrets.token_urlsafe(32)
        given = owner.key | {"name": name}
        if not self.tx.execute(ADD, {**given, "hash": _hash(token)}).rowcount:
            raise TokenNameTaken(name)
        return token

    def list(self, owner: Owner, limit: int = 100) -> Sequence[IssuedToken]:
        """List the tokens of a pipeline, newest first."""
        rows = self.tx.execute(LIST, owner.key | {"limit": limit}).fetchall()
        return [IssuedToken(**row) for row in rows]

    def find(self, token: str) -> KnownWorker | None:
        # How long a lookup by the hash of a random token takes says nothing about the token.
        row = self.tx.execute(FIND, {"hash": _hash(token)}).fetchone()
        if row is None:
            return None
        return KnownWorker(row["id"], Owner(row["org"], row["project"]), row["name"])

    def revoke(self, owner: Owner, name: str) -> bool:
        given = owner.key | {"name": name}
        return self.tx.execute(REVOKE, given).rowcount > 0


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
