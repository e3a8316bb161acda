"""The depot, run three times: everything, the days of its rounds, and notices that came later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from tallyman.project import Project
from tests.oracle import data, project
from tests.oracle.account import Account, Row
from tests.oracle.compare import Compared
from tests.oracle.expected import Oracle, appended, logged
from tests.oracle.found import Found
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes
from tests.world.scale import FULL

TOTAL = 50_000 if FULL else 2_500
ASSETS = ("clean_parcels", "zone_days", "offers", "labels", "scan_trail", "depot_scans", "weights")
ASSETS += ("close", "notice_log")
SOURCES = ("parcels", "scans", "returns", "movements", "adjustments", "notices", "rounds")
EARLY = "notice_log, first run"
ROUNDS = tuple(f"depot_rounds {day}" for day in data.DAYS)
TARGETS = (*ASSETS, EARLY, *ROUNDS)


@dataclass(frozen=True)
class Depot:
    """`said` is what `run --json` printed of each target."""

    home: Path
    oracle: Oracle
    accounts: Mapping[str, Account]
    found: Mapping[str, Found]
    said: Mapping[str, Any]
    log: tuple[list[Row], list[Row]]
    """The rows of the notice log that the first run and the second brought."""
    project: Project
    compared: Compared = field(default_factory=Compared)


def _today(said: Mapping[str, Any], home: Path) -> date:
    """The day of the run: what `current_date()` is in it."""
    manifest = json.loads((home / said["folder"] / "manifest.json").read_text())
    return datetime.fromisoformat(manifest["timestamp"]).date()


@pytest.fixture(scope="session")
def depot(request: pytest.FixtureRequest, session_homes: Homes) -> Iterator[Depot]:
    # What steps mean is compared here: in the full form with code as users run it.
    settings = "thresholds: {percentage: 1.0}\n" + ("" if FULL else INTERPRETED)
    home = session_homes.make(Home, "depot", settings)
    path = home.path
    project.write(path)
    data.write(path, TOTAL)
    opened = Project.open(path)
    first = home.ok("run", *ASSETS)
    early = Oracle(path, data.DAYS, _today(first, path))
    days = ("--from", str(data.DAYS[0]), "--to", str(data.DAYS[-1]))
    rounds = home.ok("show", home.ok("backfill", "depot_rounds", *days)["run_id"])
    data.write_late(path, TOTAL)
    late = home.ok("run", "notice_log")
    oracle = Oracle(path, data.DAYS, _today(late, path))
    found = _assembled(path, opened, (first, rounds, late), (early, oracle))
    yield found
    opened.close()
    if reporter := request.config.pluginmanager.getplugin("terminalreporter"):
        reporter.write_line(f"\n{TOTAL:,} records: {found.compared}")


@pytest.fixture(autouse=True)
def _own_mode(own_mode: None) -> None:
    """The project stays open from test to test."""


def _assembled(
    path: Path, opened: Project, runs: tuple[Any, Any, Any], oracles: tuple[Oracle, Oracle]
) -> Depot:
    first, rounds, late = runs
    early, oracle = oracles
    said: dict[str, Any] = {one["name"]: (first, one) for one in first["assets"]}
    said |= {EARLY: said["notice_log"]}
    said |= {one["name"]: (late, one) for one in late["assets"]}
    said |= {f"depot_rounds {p['partition'][2:]}": (rounds, p) for p in rounds["assets"]}
    accounts = {name: oracle.accounts[name, None] for name in ASSETS}
    accounts |= {EARLY: early.accounts["notice_log", None]}
    accounts |= {f"depot_rounds {d}": oracle.accounts["depot_rounds", f"d:{d}"] for d in data.DAYS}
    brought = appended([], accounts[EARLY].rows)
    more = appended(brought, accounts["notice_log"].rows)
    accounts["notice_log"].published = more
    accounts[EARLY].published = brought
    oracle.earlier.append(accounts[EARLY])
    return Depot(
        home=path,
        oracle=oracle,
        accounts=accounts,
        found={name: Found(path, _folder(path, *said[name])) for name in TARGETS},
        said={name: one for name, (_, one) in said.items()},
        log=(logged(brought, early.today), more),
        project=opened,
    )


def _folder(path: Path, run: Any, one: Any) -> Path:
    place = path / run["folder"] / one["name"]
    return place / f"day={one['partition'][2:]}" if one.get("partition") else place
