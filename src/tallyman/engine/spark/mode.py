"""PySpark's mode: Spark Connect or local, for functions, columns and sessions.

PySpark keeps the mode in environment variables. It sets them with the first Connect session and
leaves them there; then no local session can be started, neither here nor in a child process. So
each project has a mode of its own, enters it whenever it uses Spark, and leaves it when it is
closed. Then the process has the variables it had before.

A process has one mode at a time. Projects of both kinds can take turns; they cannot run at once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import ClassVar

ENABLED = "SPARK_CONNECT_MODE_ENABLED"
LOCAL_SERVER = "SPARK_LOCAL_REMOTE"
DEFAULT_ADDRESS = "SPARK_REMOTE"
VARIABLES = (ENABLED, LOCAL_SERVER, DEFAULT_ADDRESS)
"""The variables of a mode. Not those in which a SparkContext notes settings of its JVM
(SPARK_AUTH_SOCKET_TIMEOUT, SPARK_BUFFER_SIZE): the JVM lives as long as the process, and a child
process sets its own.
"""

Variables = Mapping[str, str | None]

# The default address is for sessions that name none; a local session must not see it.
LOCAL: Variables = {ENABLED: None, LOCAL_SERVER: None, DEFAULT_ADDRESS: None}
CONNECT: Variables = {ENABLED: "1", LOCAL_SERVER: None}


def is_connect(master: str | None) -> bool:
    return (master or "").startswith("sc://")


class SparkMode:
    """The variables that the session of one project needs. The class knows those of the process:
    the modes in use, the last entered one last, and the variables without them.
    """

    _lock: ClassVar = threading.Lock()
    # Weak references: a project that is dropped without being closed no longer needs its mode.
    _entered: ClassVar[list[weakref.ref[SparkMode]]] = []
    _theirs: ClassVar[Variables] = {}
    _ours: ClassVar[Variables | None] = None

    def __init__(self, master: str | None) -> None:
        self.variables = CONNECT if is_connect(master) else LOCAL

    def enter(self) -> None:
        """Set the variables. Call it before every use of the session: another project may have
        changed them.
        """
        with self._lock:
            if self._ours is None or _now() != self._ours:
                # Somebody changed them on purpose; keep this for when the project is closed.
                SparkMode._theirs = _now()
                SparkMode._entered = list[weakref.ref[SparkMode]]()
            SparkMode._entered = [*self._others(), weakref.ref(self)]
            _set({**self._theirs, **self.variables})

    def keep(self) -> None:
        """Store the current variables: `spark.api.mode` may have made a local session a Connect
        one.
        """
        with self._lock:
            SparkMode._ours = self.variables = _now()

    def leave(self) -> None:
        """Go back to the mode of the project used before, or to the variables of the process."""
        with self._lock:
            if weakref.ref(self) not in self._entered:
                return
            SparkMode._entered = self._others()
            if _now() != self._ours:
                return
            before = self._entered[-1]() if self._entered else None
            _set({**self._theirs, **(before.variables if before else {})})

    def _others(self) -> list[weakref.ref[SparkMode]]:
        return [entered for entered in self._entered if entered() not in (None, self)]


def _set(wanted: Variables) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    SparkMode._ours = wanted


def _now() -> Variables:
    return {name: os.environ.get(name) for name in VARIABLES}
