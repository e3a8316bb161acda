"""How long a warm worker takes for small tasks, with `tallyman server` and Spark: part of
benchmarks/dispatch.py.

    python benchmarks/warm_worker.py [rounds]

A partition of 1,000 rows lands; from its event until what follows it is published. Then the same
task again with nothing changed. Both by the clock of the database, in rows of the tasks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tallyman.control.dispatch import operate
from tallyman.domain.task.event import Scope
from tallyman.domain.task.task import TARGET, NewTask, TaskTemplate, TriggerKind
from tallyman.project import Project
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines

ROWS = 1_000
PIPELINE = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)
days = tm.daily("day", start="2025-01-01")


@tm.asset(key="id", partitioned_by=days)
def landed(raw):
    return raw


@tm.asset(key="id", partitioned_by=days, trigger="event")
def follows(landed):
    return landed.filter("n > 0", reason="none")
"""
PUBLISHED = """
    SELECT extract(epoch FROM t.finished_at - e.created_at) AS seconds
    FROM tasks t JOIN events e ON t.dedupe_key = 'event:' || e.id
    WHERE t.scope ->> 'partition_key' = %(day)s AND t.status = 'Completed'
"""
ENDED = """
    SELECT extract(epoch FROM finished_at - created_at) AS seconds FROM tasks
    WHERE id = %(id)s AND status = 'Completed'
"""


def main() -> None:
    for name, took in measured(int(sys.argv[1]) if len(sys.argv) > 1 else 8).items():
        print(f"{name:40}", *(f"{seconds * 1000:8.0f} ms" for seconds in took))


def measured(rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round; the first of all, on a cold worker, is left out."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "pipelines").mkdir()
        (home / "pipelines" / "p.py").write_text(PIPELINE)
        (home / "tallyman.yaml").write_text(f"name: bench\nserver: unix:{home}/socket\n")
        with _server(home), Project.open(home) as project:
            followed = [_landed(project, f"2025-01-{n + 1:02d}") for n in range(rounds + 1)]
            unchanged = [_unchanged(project) for _ in range(rounds)]
    return {f"event to published, {ROWS:,} rows": followed[1:], "unchanged task": unchanged}


@contextmanager
def _server(home: Path) -> Iterator[None]:
    words = [sys.executable, "-m", "tallyman.cli.main", "server", "--bind", f"unix:{home}/socket"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(words, cwd=home, stdout=log, stderr=log, start_new_session=True)
    try:
        while not (home / "socket").exists():
            assert server.poll() is None, (home / "log").read_text()
            time.sleep(0.05)
        yield
    finally:
        os.kill(server.pid, signal.SIGTERM)
        server.wait()


def _landed(project: Project, day: str) -> float:
    place = project.settings.home / "data" / day / "raw.jsonl"
    place.parent.mkdir(parents=True)
    rows = ({"id": f"{day}-{n}", "n": n, "day": day} for n in range(ROWS))
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert project.run("landed", partition=day).exit_code == 0
    return _seconds(project, PUBLISHED, {"day": f"d:{day}"})


def _unchanged(project: Project) -> float:
    def work(tx: Transaction) -> str:
        active = Pipelines(tx).active(project.settings.owner)
        assert active is not None
        template = TaskTemplate(
            project="bench", asset="follows", kind=TARGET, pipeline_version=active[0]
        )
        new = NewTask(
            template=template,
            trigger=TriggerKind.EVENT,
            dedupe_key=str(uuid4()),
            scope=Scope(partition_key="d:2025-01-01"),
        )
        operate.create(tx, [new])
        return str(new.id)

    task = project.database.durably(work)
    return _seconds(project, ENDED, {"id": task})


def _seconds(project: Project, query: str, given: dict[str, str]) -> float:
    while True:
        with project.database.transaction() as tx:
            row = tx.execute(query.encode(), given).fetchone()
        if row is not None:
            return float(row["seconds"])
        time.sleep(0.05)


if __name__ == "__main__":
    main()
