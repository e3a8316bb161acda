"""What a command costs before it does anything: processor seconds and wall time of the everyday
commands, next to `python -c pass`. No Spark, except in the run that makes something to look at.

    .venv/bin/python benchmarks/commands.py --repeats 5

The processor seconds are those of the command's own process. PostgreSQL is running already, as it
is while anything else uses the project; `ls, alone` also starts it and stops it.
`--tallyman` measures another installation in turns with this one. Compiled modules are kept, as
installing a package keeps them, also where PYTHONDONTWRITEBYTECODE is set.
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
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import tallyman as tm

ALONE = {
    "python -c pass": ("-c", "pass"),
    "import tallyman": ("-c", "import tallyman"),
    "ls, alone": ("ls",),
}
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


INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def cost(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Run a command; return its processor seconds and its wall time."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        command, cwd=folder, env=INSTALLED, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {child.returncode}\n{said.decode()}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begun


def made(tool: Path, folder: Path) -> Path:
    """Make a project and run it once, by the tool that will be measured."""
    home = folder / "shop"
    subprocess.run([str(tool), "init", str(home)], check=True, capture_output=True)
    subprocess.run([str(tool), "run"], cwd=home, check=True, capture_output=True)
    return home


def measure(homes: dict[Path, Path], words: Sequence[str], repeats: int) -> list[dict[str, float]]:
    """Measure one command of every tool, in turns: the machine is not always equally fast."""
    costs: dict[Path, list[tuple[float, float]]] = {tool: [] for tool in homes}
    for _ in range(repeats + 1):
        for tool, home in homes.items():
            program = tool.with_name("python") if words[0] == "-c" else tool
            costs[tool].append(cost((str(program), *words), home))
    found = []
    for taken in costs.values():
        processor, wall = (statistics.median(one) for one in zip(*taken[1:], strict=True))
        found.append({"cpu_s": round(processor, 3), "wall_s": round(wall, 3)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tallyman", type=Path, help="another installation's command")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    here, load = Path(sys.executable).with_name("tallyman"), os.getloadavg()[0]
    tools = {"now": here} | ({"before": given.tallyman.absolute()} if given.tallyman else {})
    rows: dict[str, list[dict[str, float]]] = {}
    with ExitStack() as stack:
        folders = {
            tool: Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tallyman-bench-")))
            for tool in tools.values()
        }
        homes = {tool: made(tool, folder) for tool, folder in folders.items()}
        for what, words in ALONE.items():
            rows[what] = measure(homes, words, given.repeats)
        for home in homes.values():
            stack.enter_context(tm.Project.open(home)).heads()
        for what, words in COMMANDS.items():
            rows[what] = measure(homes, words, given.repeats)
    report(list(tools), rows)
    if given.save:
        kept = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "load_before": round(load, 1),
            "repeats": given.repeats,
            "results": {what: dict(zip(tools, one, strict=True)) for what, one in rows.items()},
        }
        place = Path(__file__).parent / "results" / "commands.json"
        place.write_text(json.dumps(kept, indent=2) + "\n")


def report(tools: Sequence[str], rows: dict[str, list[dict[str, float]]]) -> None:
    print(" " * 20 + "".join(f"{f'{t}: processor s':>22}{'wall s':>9}" for t in tools))
    for what, costs in rows.items():
        print(f"{what:<20}" + "".join(f"{c['cpu_s']:>22.3f}{c['wall_s']:>9.3f}" for c in costs))


if __name__ == "__main__":
    main()
