"""The projects whose tasks a server assigns, each on the pipeline version that a task names."""

from __future__ import annotations

import threading

from tallyman.control.pipeline.past_versions import ACTIVE, get_version
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database

MOST = 32
"""The most versions that are kept open."""


class TaskProjects:
    """Opens a project by its owner, on a stored plan. Its files are not compiled: code of users
    does not run in a server. May be used from several threads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._opened: dict[tuple[Owner, str], Workspace] = {}
        self._lock = threading.Lock()

    @property
    def database(self) -> Database:
        return self._workspace.database

    def of(self, owner: Owner) -> Workspace:
        """Open the project of an owner, whatever its version."""
        own = self._workspace
        return own if own.owner == owner else own.other(owner)

    def at(self, owner: Owner, version: str | None) -> Workspace:
        """Open a project on a version of its pipeline; None means the active one."""
        with self._lock:
            known = self._opened.get((owner, version or ACTIVE))
        if known is not None:
            return known
        found = self.database.durably(lambda tx: get_version(tx, owner, version or ACTIVE))
        key = owner, found.hash
        with self._lock:
            if key not in self._opened:
                if len(self._opened) >= MOST:
                    self._opened.clear()
                self._opened[key] = self.of(owner).at(found)
            return self._opened[key]
