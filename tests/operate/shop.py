"""A project, its commands as processes of their own, and its tasks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil

from tallyman.control.dispatch import operate
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.task import LEASE_S, NewTask, Task, TaskTemplate, TriggerKind
from tallyman.project import Project
from tests.world.home import COMMAND, Home
from tests.world.waiting import wait_until

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "at_start"
NUMBERS = itertools.count()
ONCE = RetryPolicy(attempts=1)
TWICE = RetryPolicy(attempts=2, backoff_s=0, backoff_cap_s=0)
PIPELINE = """\
import tallyman as tm

person = tm.table("person", schema="name string not null, age int", key="name")
"""


class Service:
    """A command that goes on until it is ended; what it prints is read all the time."""

    def __init__(self, folder: Path, *words: str, **more: str) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}
        self.process = subprocess.Popen(
            [COMMAND, *words],
            cwd=folder,
            env={**kept, "PYTHONPATH": f"{HERE}:{ROOT}", **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def saying(self, words: str) -> str:
        """Wait for a line with these words, and return it."""
        wait_until(lambda: any(words in line for line in list(self.lines)) or self.ended)
        found = [line for line in list(self.lines) if words in line]
        assert found, f"it ended without {words!r}: {self.text}"
        return found[0]

    @cached_property
    def address(self) -> str:
        """Where a server with --json listens."""
        return str(json.loads(self.saying('"address"'))["address"])

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None and not self._reader.is_alive()

    def workers(self, count: int = 1) -> list[int]:
        """Wait until it has started so many workers; return their processes."""
        wait_until(lambda: len(self._children()) == count)
        return self._children()

    def _children(self) -> list[int]:
        try:
            return [child.pid for child in psutil.Process(self.process.pid).children()]
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def drained(self) -> str:
        self.signal(signal.SIGTERM)
        assert self.wait() == 0, self.text
        return self.text

    def kill(self) -> None:
        """As kill -9 does. Its workers finish what they have begun, and still print to us."""
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """End it with what it started."""
        started = self._children()
        self.kill()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reader.join(60)


@dataclass
class Shop:
    home: Home
    project: Project
    services: list[Service] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, address: str | None) -> Shop:
        folder.mkdir(exist_ok=True)
        database = f"database: {address}\n" if address else ""
        (folder / "tallyman.yaml").write_text(f"name: shop-{next(NUMBERS)}\n{database}")
        home = Home(folder, {"TALLYMAN_ACTOR": "ann"}).pipeline(PIPELINE)
        project = Project.open(folder)
        project.workers.ensure_default_pool()
        return cls(home, project)

    @property
    def folder(self) -> Path:
        return self.home.path

    def close(self) -> None:
        for service in self.services:
            service.close()
        self.project.close()

    # ---- processes --------------------------------------------------------------------------

    def start(self, *words: str) -> Service:
        self.services.append(Service(self.folder, *words))
        return self.services[-1]

    def server(self, *words: str, bind: str = "127.0.0.1:0") -> Service:
        made = self.start("server", "--json", "--bind", bind, *words)
        assert made.address
        return made

    # ---- tasks ------------------------------------------------------------------------------

    def add(
        self, kind: str = "echo", *, lease_s: int = LEASE_S, retry: RetryPolicy = ONCE, **rest: Any
    ) -> UUID:
        template = TaskTemplate(
            project=self.project.settings.name,
            asset=rest.pop("asset", kind),
            kind=kind,
            config=rest.pop("config", {}),
            lease_s=lease_s,
            retry=retry,
            **rest,
        )
        new = NewTask(template=template, trigger=TriggerKind.MANUAL, dedupe_key=str(uuid4()))
        with self.project.database.transaction() as tx:
            [made] = operate.create(tx, [new])
        return made

    def held(self, name: str = "gate", **rest: Any) -> tuple[UUID, Gate]:
        """Add a task that waits at a gate."""
        gate = Gate(self.folder / name)
        return self.add("held", config={"place": str(gate.place)}, **rest), gate

    def task(self, task: UUID) -> Task:
        return self.project.tasks.find(str(task))

    def status(self, task: UUID) -> str:
        return self.task(task).status.value

    def outcomes(self, task: UUID) -> list[str | None]:
        return [row["outcome"] for row in self.project.tasks.attempts(task)]

    def finished(self, *tasks: UUID) -> list[str]:
        wait_until(lambda: all(self.task(task).finished_at for task in tasks))
        return [self.status(task) for task in tasks]


@dataclass(frozen=True)
class Gate:
    place: Path

    def reached(self, attempt: int = 1) -> int:
        """Wait until the work is there; return the process that does it."""
        wait_until(lambda: self.begun(attempt))
        return int(self._mark(attempt).read_text())

    def begun(self, attempt: int = 1) -> bool:
        return self._mark(attempt).exists()

    def _mark(self, attempt: int) -> Path:
        return self.place.with_suffix(f".begun{attempt}")

    def open(self) -> None:
        self.place.touch()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
