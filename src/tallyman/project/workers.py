"""Workers of a project: their tokens, and the pools of their tasks."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.task.task import DEFAULT_POOL
from tallyman.errors import DatabaseUnavailable, NotFound, UsageError
from tallyman.on_demand import OnDemand
from tallyman.project.server_health import ServerHealth, ask
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.task.pools import Pools, PoolState
from tallyman.registry.task.worker_tokens import IssuedToken, WorkerTokens
from tallyman.settings import Secret

if TYPE_CHECKING:
    from tallyman.control.tasks import target_tasks
else:
    # It is for servers only, and knows Spark.
    target_tasks = OnDemand("tallyman.control.tasks.target_tasks")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
POOL = re.compile(r"[a-z][a-z0-9_]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OF_SERVER = re.compile(r"server-(?P<host>.+)-(?P<process>\d+)-[0-9a-f]{8}")
"""The name of the token that a server makes for the workers on its machine."""
MOST_SLOTS = 1000


@dataclass(frozen=True, slots=True)
class ProjectWorkers:
    """Gives out tokens, and decides how many tasks run at once."""

    workspace: Workspace

    def server(self) -> ServerHealth | None:
        """Ask the server that the settings name whether it is ready; None if they name none."""
        address = self.workspace.settings.server
        return None if address is None else ask(address, self.workspace.owner)

    def targets(self) -> target_tasks.TargetTasks:
        """Return the tasks of a server that make targets."""
        return target_tasks.TargetTasks(self.workspace)

    # ---- tokens -----------------------------------------------------------------------------

    def make_token(self, name: str) -> Secret:
        """Make a token for a worker. It cannot be read again."""
        if not NAME.fullmatch(name):
            expected = "letters, digits, '.', '_' and '-', at most 100"
            raise UsageError(f"the name of a token: expected {expected}, not {name!r}")
        # Not repeated when the connection is lost: the name would be taken.
        with self.workspace.database.transaction() as tx:
            token = Secret(WorkerTokens(tx).add(self.workspace.owner, name))
            self._audit(tx, "worker_token.created", name)
        return token

    def tokens(self) -> Sequence[IssuedToken]:
        """List tokens, newest first, also those that were revoked."""
        owner = self.workspace.owner
        return self.workspace.database.durably(lambda tx: WorkerTokens(tx).list(owner))

    def revoke_token(self, name: str) -> None:
        """Refuse the worker with this token from now on, within two seconds."""

        def work(tx: Transaction) -> bool:
            revoked = WorkerTokens(tx).revoke(self.workspace.owner, name)
            if revoked:
                self._audit(tx, "worker_token.revoked", name)
            return revoked

        revoked = self.workspace.database.durably(work)
        if not revoked and not any(token.name == name for token in self.tokens()):
            raise NotFound("worker token", name)

    @contextmanager
    def token_of_server(self) -> Iterator[Secret]:
        """Make a token for the workers that this process starts, and revoke it in the end. Tokens
        of servers of this machine that were killed are revoked now, if no worker uses them."""
        host = re.sub(r"[^A-Za-z0-9._-]", "", socket.gethostname())[:60] or "here"
        for old in self.tokens():
            if old.revoked_at is None and not old.running and _is_left(old.name, host):
                self.revoke_token(old.name)
        name = f"server-{host}-{os.getpid()}-{secrets.token_hex(4)}"
        token = self.make_token(name)
        try:
            yield token
        finally:
            with suppress(DatabaseUnavailable):  # the next server does it
                self.revoke_token(name)

    # ---- pools ------------------------------------------------------------------------------

    def pools(self) -> list[PoolState]:
        """List pools by name."""
        owner = self.workspace.owner
        return self.workspace.database.durably(lambda tx: Pools(tx).states(owner))

    def ensure_default_pool(self) -> None:
        """Make the pool of tasks that name none, unless it is there."""
        owner = self.workspace.owner
        self.workspace.database.durably(lambda tx: Pools(tx).ensure(owner, DEFAULT_POOL))

    def set_pool(self, name: str, slots: Sequence[Mapping[str, str]] | None) -> None:
        """Make or change a pool: one slot per environment; None lets any number of tasks run."""
        if not POOL.fullmatch(name):
            expected = "lower-case letters, digits and '_', beginning with a letter, at most 64"
            raise UsageError(f"the name of a pool: expected {expected}, not {name!r}")
        if slots is not None and not 1 <= len(slots) <= MOST_SLOTS:
            raise UsageError(f"a pool has 1 to {MOST_SLOTS} slots, not {len(slots)}")
        for variable in {variable for env in slots or () for variable in env}:
            if not VARIABLE.fullmatch(variable) or variable.startswith("TALLYMAN_"):
                raise UsageError(f"{variable!r} cannot be the name of a variable of a slot")

        def work(tx: Transaction) -> None:
            Pools(tx).define(self.workspace.owner, name, slots)
            self._audit(tx, "pool.set", name, slots=None if slots is None else len(slots))

        self.workspace.database.durably(work)

    def _audit(self, tx: Transaction, event: str, resource: str, **details: object) -> None:
        actor = self.workspace.actor
        Audit(tx, self.workspace.owner).add(event, actor, resource, details=details)


def _is_left(name: str, host: str) -> bool:
    """True if this is the token of a server of this machine that is gone."""
    found = OF_SERVER.fullmatch(name)
    if found is None or found["host"] != host:
        return False
    return not psutil.pid_exists(int(found["process"]))
