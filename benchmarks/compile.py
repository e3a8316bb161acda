"""What compiling costs: processor seconds and wall time of `compile`, `ls` and `plan` on a project
of many assets, and what compiling adds to a run of the demo.

    .venv/bin/python benchmarks/compile.py --assets 500 --repeats 5

The processor seconds include those of the child that compiles. What compiling adds to a run is the
wall time from the start of the child to the pipeline that is read from its answer, in a process
that has imported everything, as a run has; with SQL texts as in the demo, and with Columns, for
which the child imports PySpark's functions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tallyman.control.compile.child import compile_in_child

ROOT = Path(__file__).parents[1]
HEAD = 'import tallyman as tm\n\ntm.source("rows", "data", schema="id string, v int", key="id")\n'
ASSET = "\n@tm.asset\ndef asset_{n}(rows):\n    return rows.withColumn('more', 'v + {n}')\n"
COLUMNS = (
    "import tallyman as tm\nfrom pyspark.sql import functions as F\n\n"
    'tm.source("rows", "data", schema="id string, v int", key="id")\n\n'
    "@tm.asset\ndef doubled(rows):\n    return rows.withColumn('twice', F.col('v') * 2)\n"
)


def project(home: Path, text: str) -> Path:
    (home / "pipelines").mkdir(parents=True)
    (home / "data").mkdir()
    (home / "data" / "rows.json").write_text('{"id": "1", "v": 1}\n')
    (home / "pipelines" / "p.py").write_text(text)
    (home / "tallyman.yaml").write_text("name: compiled\n")
    return home


def command(home: Path, word: str) -> tuple[float, float]:
    """Run a command; return its processor seconds, with the compiling child, and its wall time."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        [Path(sys.executable).with_name("tallyman"), word], cwd=home, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"tallyman {word}: exit {child.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begun


def compiled(home: Path) -> tuple[float, float]:
    begun, used = time.perf_counter(), _used()
    compile_in_child(home / "pipelines").pipeline()
    return _used() - used, time.perf_counter() - begun


def _used() -> float:
    return sum(os.times()[:4])


def medians(measured: Callable[[], tuple[float, float]], repeats: int) -> dict[str, float]:
    costs = [measured() for _ in range(repeats + 1)][1:]
    processor, wall = (statistics.median(one) for one in zip(*costs, strict=True))
    return {"cpu_s": round(processor, 3), "wall_s": round(wall, 3)}


def measure(folder: Path, assets: int, repeats: int) -> dict[str, dict[str, float]]:
    many = project(folder / "many", HEAD + "".join(ASSET.format(n=n) for n in range(assets)))
    demo = folder / "airline"
    shutil.copytree(ROOT / "examples" / "airline", demo)
    columns = project(folder / "columns", COLUMNS)
    found = {
        f"{word}, {assets} assets": medians(lambda word=word: command(many, word), repeats)
        for word in ("compile", "ls", "plan")
    }
    found["added to a run: the demo"] = medians(lambda: compiled(demo), repeats)
    found[f"added to a run: {assets} assets"] = medians(lambda: compiled(many), repeats)
    found["added to a run: Columns"] = medians(lambda: compiled(columns), repeats)
    return found


def report(rows: dict[str, dict[str, float]]) -> None:
    print(f"{'':<30}{'processor s':>12}{'wall s':>9}")
    for what, cost in rows.items():
        print(f"{what:<30}{cost['cpu_s']:>12.3f}{cost['wall_s']:>9.3f}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assets", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as folder:
        rows = measure(Path(folder), given.assets, given.repeats)
    report(rows)
    if given.save:
        kept = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "load_before": round(load, 1),
            "repeats": given.repeats,
            "results": rows,
        }
        place = Path(__file__).parent / "results" / "compile.json"
        place.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
