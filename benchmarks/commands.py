"""What a command costs before it does anything: processor seconds and wall time of the everyday
commands, next to `python -c pass`. No Spark, except in the run that makes something to look at.

    .venv/bin/python benchmarks/commands.py --repeats 5

The processor seconds are those of the command's own process. PostgreSQL is running already, as it
is while anything else uses the project; `ls, alone` also starts it and stops it.
`--tallyman` measures another installation, for a comparison within one run of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tallyman as tm

COMMANDS = {
    "ls": ("ls",),
    "show": ("show",),
    "runs": ("runs",),
    "versions": ("versions", "daily_sales"),
    "commits": ("commits",),
    "why": ("why", "daily_sales", "day=2026-01-01"),
    "run, unchanged": ("run",),
    "--help": ("--help",),
}


def cost(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Run a command; return its processor seconds and its wall time."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {child.returncode}\n{said.decode()}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begun


def measured(what: str, command: Sequence[str], folder: Path, repeats: int) -> dict[str, Any]:
    cost(command, folder)
    costs = [cost(command, folder) for _ in range(repeats)]
    processor, wall = (statistics.median(one) for one in zip(*costs, strict=True))
    return {"what": what, "cpu_s": round(processor, 3), "wall_s": round(wall, 3)}


def measure(tool: Path, folder: Path, repeats: int) -> list[dict[str, Any]]:
    python, command = str(tool.with_name("python")), str(tool)
    home = folder / "shop"
    subprocess.run([command, "init", str(home)], check=True, capture_output=True)
    subprocess.run([command, "run"], cwd=home, check=True, capture_output=True)
    found = [
        measured("python -c pass", (python, "-c", "pass"), home, repeats),
        measured("import tallyman", (python, "-c", "import tallyman"), home, repeats),
        measured("ls, alone", (command, "ls"), home, repeats),
    ]
    with tm.Project.open(home) as project:
        project.heads()
        found += [
            measured(what, (command, *words), home, repeats) for what, words in COMMANDS.items()
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tallyman", type=Path, help="another installation's command")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    tool, load = Path(sys.executable).with_name("tallyman"), os.getloadavg()[0]
    results: dict[str, list[dict[str, Any]]] = {}
    for name, one in {"now": tool, "before": given.tallyman}.items():
        if one is not None:
            with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as folder:
                results[name] = measure(one.absolute(), Path(folder), given.repeats)
    report(results)
    if given.save:
        kept = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "load_before": round(load, 1),
            "repeats": given.repeats,
            "results": results,
        }
        place = Path(__file__).parent / "results" / "commands.json"
        place.write_text(json.dumps(kept, indent=2) + "\n")


def report(results: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in results.items():
        print(f"{name:<20}{'processor s':>14}{'wall s':>10}")
        for row in rows:
            print(f"{row['what']:<20}{row['cpu_s']:>14.3f}{row['wall_s']:>10.3f}")


if __name__ == "__main__":
    main()
