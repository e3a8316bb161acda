"""A project folder, the command in it, and readers of what it leaves.

`rows` and `heads` are ours, `outside` is a PyIceberg client that knows the database and nothing
of Tallyman.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.pq import ExecStatus
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from tallyman.project import Project
from tests.forked import Running, command
from tests.planting import BUG, HERE
from tests.world.command import in_process
from tests.world.databases import owner_of
from tests.world.reply import Reply

COMMAND = str(Path(sys.executable).with_name("tallyman"))
Row = tuple[object, ...]


@dataclass
class Home:
    """`environment` is what every command gets."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    apart: bool = False
    """True if every command needs a process of its own: its pipeline plants a bug in it."""

    # ---- what a person does ----------------------------------------------------------------

    def pipeline(self, text: str) -> Self:
        (self.path / "pipelines").mkdir(exist_ok=True)
        (self.path / "pipelines" / "p.py").write_text(text)
        self.apart = BUG in text
        return self

    def edit(self, before: str, after: str) -> Self:
        text = (self.path / "pipelines" / "p.py").read_text()
        assert before in text
        return self.pipeline(text.replace(before, after))

    def data(self, name: str, *rows: Mapping[str, object]) -> Self:
        place = self.path / "data" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self

    def printed(self, *words: str, **more: str) -> Reply:
        """Run the command in this process, unless it is to be killed or another one runs here."""
        alone = threading.current_thread() is threading.main_thread()
        if self.apart or not alone or "TALLYMAN_CRASH_AT" in more:
            return self.forked(*words, **more)
        return in_process(self.path, words, {**self.environment, **more})

    def tallyman(self, *words: str, **more: str) -> Reply:
        return self.printed(*words, "--json", **more)

    def ok(self, *words: str, **more: str) -> Any:
        reply = self.tallyman(*words, **more)
        assert reply.code == 0, str(reply)
        return reply.json

    def refused(self, *words: str) -> str:
        """Exit 4: the code of the conflict."""
        reply = self.tallyman(*words)
        assert reply.code == 4, str(reply)
        return str(reply.json.get("code") or reply.json["error"]["code"])

    # ---- commands that are processes ---------------------------------------------------------

    def forked(self, *words: str, **more: str) -> Reply:
        """Run the command in a process of its own: for what would change this one."""
        return Reply(*self.start(*words, **more).wait())

    def start(self, *words: str, **more: str) -> Running:
        """Start the command in a process of its own, and do not wait for it."""
        self.running.append(Running(self.path, self._given(more), partial(command, *words)))
        return self.running[-1]

    def installed(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start the installed script in a session of its own. SIGINT: `tests/dispositions.py`."""
        return subprocess.Popen(
            [COMMAND, *words],
            cwd=self.path,
            env={**self._given(more), "PYTHONPATH": f"{HERE}:{Path(__file__).parents[2]}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _given(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}
        return {**kept, **self.environment, **more}

    # ---- what readers see --------------------------------------------------------------------

    @cached_property
    def project(self) -> Project:
        """For reading, without Spark."""
        return Project.open(self.path)

    @cached_property
    def catalog(self) -> SqlCatalog:
        url = self.project.database.url().replace("postgresql://", "postgresql+psycopg://")
        return SqlCatalog("tallyman", uri=url, init_catalog_tables="false")

    def close(self) -> None:
        """Also for a test that failed while a command stood still."""
        for running in self.running:
            running.kill()
        if "catalog" in self.__dict__:
            self.__dict__.pop("catalog").engine.dispose()
        if "project" in self.__dict__:
            self.__dict__.pop("project").close()

    def folder(self, run: str) -> Path:
        [found] = (self.path / "runs").glob(f"*_{run}")
        return found

    def heads(self) -> dict[str, int]:
        return self.project.heads()

    def rows(self, name: str, version: int | None = None) -> list[Row]:
        _, found = self.project.rows(name, version, limit=1_000)
        return sorted(tuple(row.values()) for row in found)

    def outside(self, name: str) -> list[Row] | None:
        """None if there is no such table."""
        try:
            table = self.catalog.load_table(("published", name))
        except NoSuchTableError:
            return None
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def damaged(self) -> list[str]:
        """Files of any version of any dataset that are not what was published."""
        listed = self.query(
            "SELECT d.name, v.ordinal FROM versions v JOIN datasets d ON d.id = v.dataset_id "
            "WHERE v.metadata_location IS NOT NULL AND v.purged_at IS NULL"
        )
        return [
            f"{name} v{ordinal}: {damage.shown} {damage.kind}"
            for name, ordinal in listed
            for damage in self.project.damaged(str(name), int(str(ordinal)))[1]
        ]

    # ---- straight from the database ----------------------------------------------------------

    def query(self, text: str, *given: object) -> list[Row]:
        with psycopg.connect(self.project.database.url()) as connection:
            return connection.execute(text.encode(), given).fetchall()

    def sql(self, text: str) -> list[list[str]]:
        """What the shell of the database would print."""
        with psycopg.connect(self.project.database.url(), autocommit=True) as connection:
            found = connection.pgconn.exec_(text.encode())
            assert found.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK), found
            columns = range(found.nfields)
            rows = [[found.get_value(n, c) or b"" for c in columns] for n in range(found.ntuples)]
        return [[value.decode() for value in row] for row in rows]

    def owner(self, *statements: str) -> list[Row]:
        """As the owner of the tables, past their guards: what a forger with the password can do."""
        address = owner_of(self.project.database.url())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            done = [connection.execute(text.encode()) for text in statements]
            return done[-1].fetchall() if done[-1].description else []

    def count(self, *tables: str) -> dict[str, int]:
        return {t: int(str(self.query(f"SELECT count(*) FROM {t}")[0][0])) for t in tables}

    def states(self, run: str) -> dict[str, tuple[str, int]]:
        """Status and attempt of each asset of a run."""
        found = self.query(
            "SELECT m.asset_name, m.status, m.attempt "
            "FROM materializations m JOIN runs r ON r.id = m.run_id WHERE r.name = %s",
            run,
        )
        return {str(asset): (str(status), int(str(n))) for asset, status, n in found}

    def target_states(self, run: str) -> dict[str, str]:
        """Status of each target of a run, partitions by themselves."""
        found = self.query(
            "SELECT m.asset_name || coalesce('[' || m.partition || ']', ''), m.status "
            "FROM materializations m JOIN runs r ON r.id = m.run_id WHERE r.name = %s",
            run,
        )
        return {str(target): str(status) for target, status in found}

    def status(self, run: str) -> object:
        return self.query("SELECT status FROM runs WHERE name = %s", run)[0][0]


def statuses(result: Mapping[str, Any]) -> dict[str, str]:
    return {made["name"]: made["status"] for made in result["assets"]}


def kill(running: subprocess.Popen[str]) -> None:
    """All of it; nothing happens when it has ended by itself."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
