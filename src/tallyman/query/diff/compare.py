"""Compare two runs: what they were bound to, and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

from tallyman.domain.account.ledger_json import partition_type
from tallyman.domain.definition.canonical_json import changed
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.run_folder import CONFIG, LEDGER
from tallyman.engine.files.vouched import Vouched
from tallyman.query.report.flow import RecordFlow, flows
from tallyman.query.report.run import KnownRun, known_facts

VOLATILE = "volatile"
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A value that differs; None means that the run does not have it."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    differences: tuple[RunDifference, ...] = ()
    informative: bool = False
    """True if equal runs may differ here, so that it does not affect the verdict."""

    def to_json(self) -> dict[str, Any]:
        return {
            "section": self.name,
            "state": "different" if self.differences else "same",
            "informative": self.informative,
            "differences": [asdict(one) for one in self.differences],
        }


@dataclass(frozen=True, slots=True)
class RunComparison:
    a: str
    b: str
    sections: tuple[Section, ...]

    @property
    def same(self) -> bool:
        """True if all sections are the same."""
        return not any(s.differences for s in self.sections if not s.informative)

    def to_json(self) -> dict[str, Any]:
        sections = [section.to_json() for section in self.sections]
        return {"a": self.a, "b": self.b, "same": self.same, "sections": sections}


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the two runs: its folder, and its record in the registry, if any."""

    run: Run
    known: KnownRun | None

    @property
    def targets(self) -> list[dict[str, Any]]:
        return list(known_facts(self.run, self.known)["assets"])


def compare(a: RunSide, b: RunSide) -> RunComparison:
    sections = (
        _section("config", a, b, _config),
        _section("code", a, b, _code),
        _section("environment", a, b, _environment),
        _section("inputs", a, b, _inputs),
        _section("ledgers", a, b, _ledgers),
        _section("timings", a, b, _timings, informative=True),
    )
    return RunComparison(a.run.run_id, b.run.run_id, sections)


def _section(
    name: str, a: RunSide, b: RunSide, facts: Any, *, informative: bool = False
) -> Section:
    differences = tuple(starmap(RunDifference, changed(facts(a), facts(b))))
    return Section(name=name, differences=differences, informative=informative)


# ---- what is compared ---------------------------------------------------------------------------


def _config(side: RunSide) -> Facts:
    found = side.run.vouched.json(side.run.folder / CONFIG)
    if found is None:
        return {"config_hash": side.run.manifest.config_hash}
    return {name: value for name, value in found.items() if name != VOLATILE}


def _code(side: RunSide) -> Facts:
    code = side.run.manifest.code
    return {
        "git_commit": code.git_commit,
        "git_dirty": code.git_dirty,
        "source_hash": code.source_hash,
        "definition_hash": side.run.manifest.definitions,
    }


def _environment(side: RunSide) -> Facts:
    return side.run.manifest.environment


def _inputs(side: RunSide) -> Facts:
    return {name: one.to_json() for name, one in side.run.manifest.inputs.items()}


def _ledgers(side: RunSide) -> Facts:
    places = side.run.places()
    found = {}
    for one in side.targets:
        target = Target(one["name"], one.get("partition"))
        found[str(target)] = _outcome(one, places.get(target), side.run.vouched)
    return found


def _outcome(one: Facts, place: Path | None, vouched: Vouched) -> dict[str, Any]:
    """Return the facts to compare; a skipped target is compared by the result it reused."""
    status = Status.SUCCESS.value if one["status"] == Status.SKIPPED else one["status"]
    found: dict[str, Any] = {"status": status, "rows_out": one.get("rows_out")}
    found["content_digest"] = one.get("content_digest")
    if place is None or vouched.content(place / LEDGER) is None:
        return found
    ledger = vouched.ledger(place)
    vouched.check(place, "errors")
    records, *made = flows([ledger])
    found |= {
        "records_in": records.count,
        "fates": _fates(records),
        "unaccounted": records.unaccounted,
        "sub_ledgers": {
            str(flow.opened_by): {"unit": flow.unit, "units_in": flow.count, "fates": _fates(flow)}
            for flow in made
        },
    }
    found["rejections"] = _by_type(place)
    digests = {
        f"{partition_type(part)} {part.location}": str(part.digest) for part in ledger.partitions
    }
    return found | {"keys": {"in": str(ledger.inputs.digest), **digests}}


def _fates(flow: RecordFlow) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in flow.shares:
        counts[one.fate] = counts.get(one.fate, 0) + one.count
    return counts


def _by_type(place: Path) -> dict[str, int]:
    path = place / "errors" / "_summary.json"
    counts: dict[str, int] = {}
    if path.exists():
        for row in json.loads(path.read_text(encoding="utf-8")):
            counts[row["error_type"]] = counts.get(row["error_type"], 0) + row["count"]
    return counts


def _timings(side: RunSide) -> Facts:
    return {
        str(Target(one["name"], one.get("partition"))): {"duration_ms": one.get("duration_ms")}
        for one in side.targets
    }
