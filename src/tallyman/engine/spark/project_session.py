"""The Spark session of one project, opened when first needed, with PySpark's mode."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.engine.spark import short_runs
from tallyman.engine.spark.mode import SparkMode
from tallyman.engine.spark.settings import settings_for
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallyman.engine.spark import lent_session, session
else:
    lent_session = OnDemand("tallyman.engine.spark.lent_session")
    session = OnDemand("tallyman.engine.spark.session")


class ProjectSession:
    def __init__(self, master: str | None, state_folder: Path) -> None:
        self.master = master
        self._state_folder = state_folder
        self._mode = SparkMode(master)
        self._session: SparkSession | None = None
        self._unwanted: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self.ends_soon = False
        """True if this process ends after one command."""

    def enter_mode(self) -> None:
        """Prepare for plans: they are built before Spark starts, and may contain columns."""
        self._mode.enter()

    def leave_mode(self) -> None:
        self._mode.leave()

    def get(
        self,
        conf: Mapping[str, str],
        quiet: Mapping[str, str],
        is_little: Callable[[], bool] = lambda: False,
    ) -> SparkSession:
        """Return the session, and enter PySpark's mode, local or Connect, until another project's
        session is used or this project is closed. `conf` overrides settings in `quiet`;
        `is_little` is asked, in a process that ends soon, whether there is little work.
        """
        self._mode.enter()
        with self._lock:
            if self._session is None:
                given = {**quiet, **conf}
                short = self.ends_soon and is_little()
                java = short_runs.java(given, os.environ) if short else ""
                state = str(self._state_folder)
                self._session = session.open_session(self.master, given, state, java)
                self._mode.keep()
                lent_session.forget(self._session, self._unwanted - conf.keys())
            return self._session

    def is_up(self) -> bool:
        """True if a session already exists, opened here or by somebody else."""
        return self._session is not None or session.is_up(self.master)

    @contextmanager
    def lent(
        self, usual: Mapping[str, str], wanted: Mapping[str, str], quiet: Mapping[str, str]
    ) -> Iterator[list[str]]:
        """Use Spark with other settings, and restore them afterwards. Yield the settings that an
        already started session cannot take over.
        """
        now, then = (settings_for(self.master, given) for given in (usual, wanted))
        self._mode.enter()
        if self.is_up():
            with lent_session.lent(self.get(usual, quiet), then, now) as refused:
                yield refused
            return
        try:
            yield []
        finally:
            started, self._session = self._session, None
            if started is not None:
                started.stop()
                # The JVM lives on, and gives its start settings to every later session.
                self._unwanted |= then.keys() - now.keys()
