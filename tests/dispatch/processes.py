"""Servers and workers as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER = """
import os, sys
from pathlib import Path
from tallyman.registry.database import Database
from tallyman.server.serve import serve

if plant := os.environ.get("TALLYMAN_TEST_PLANT"):
    import pytest
    from tests.dispatch import test_chaos
    getattr(test_chaos, plant)(pytest.MonkeyPatch(), None)
database = Database(sys.argv[1], Path(sys.argv[2]), most_idle=32)
serve(database, sys.argv[3], ready=lambda address: print(address, flush=True))
database.close()
print("drained", flush=True)
"""
WORKER = """
import signal, sys
from tallyman.settings import Secret
from tallyman.worker.client import ServerClient
from tallyman.worker.worker import Worker

address, token_file, concurrency, *pools = sys.argv[1:]
client = ServerClient(address, Secret(open(token_file).read().strip()))
kinds = ("echo", "hang", "crash", "raises", "spy", "warm", "operator")
work = {name: f"tests.dispatch.work:{name}" for name in kinds}
places = int(concurrency)
worker = Worker(
    client, work, pools or ["default"], concurrency=places, confined=["operator"]
)
signal.signal(signal.SIGTERM, lambda *_: worker.drain())
print("working", flush=True)
worker.run()
print("drained", flush=True)
"""


class Process:
    def __init__(self, code: str, *given: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *given],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().strip()
        """What it printed when it was ready."""
        assert self.first, "the process ended before it was ready"

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def drained(self) -> str:
        """Ask it to end, and return what else it printed."""
        self.signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return said.strip()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.communicate()


def server(database: str, folder: Path, bind: str = "127.0.0.1:0", **env: str) -> Process:
    return Process(SERVER, database, str(folder), bind, **env)


def worker(address: str, token_file: Path, concurrency: int = 1, *pools: str) -> Process:
    # Variables that a worker may have and its children must not get.
    env = {"TALLYMAN_DATABASE_URL": "postgresql://secret@h/d", "PGPASSWORD": "secret"}
    return Process(WORKER, address, str(token_file), str(concurrency), *pools, **env)
