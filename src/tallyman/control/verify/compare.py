"""Compare a result with the one made again: rows, rejections, evidence and ledger, by content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tallyman.control.conclude.finish import result_of
from tallyman.control.target.make import Making
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.history.reproduction import TargetAgain, Verdict
from tallyman.domain.history.run import AssetResult, Status
from tallyman.engine.readback import compare_results as results
from tallyman.errors import (
    InputChanged,
    InputMissing,
    InputUnreadable,
    StepFailed,
    StorageFailed,
    StructuralError,
    TallymanError,
)
from tallyman.errors.wording import first_line

LIMIT = 20
"""The most samples of each kind; counts are exact."""
_OUTSIDE = (InputChanged, InputMissing, InputUnreadable, StepFailed, StorageFailed)
OUTSIDE = {kind.code for kind in _OUTSIDE}
"""Errors that say nothing about the run's data."""

Differ: TypeAlias = (
    "Callable[[Sequence[str], Sequence[str], Sequence[str], int], Mapping[str, Any]]"
)
"""Takes Parquet files then and now, the key, and the number of samples; returns what `tallyman diff
--json` prints."""


@dataclass(frozen=True, slots=True)
class _Sides:
    then: Path
    now: Path
    key: Sequence[str]
    differ: Differ

    def rows(self) -> Mapping[str, Any]:
        files = results.rows_of(self.then), results.rows_of(self.now)
        return self.differ(*files, self.key, LIMIT)


def compare(
    row: Materialization,
    making: Making,
    places: tuple[Path, Path],
    key: Sequence[str],
    differ: Differ,
) -> TargetAgain:
    """Compare a target. `places` are the folders of the run and of the new result."""
    then, now = result_of(row), making.result
    error = now.error or {}
    if now.status is Status.FAILED and error.get("code") in OUTSIDE:
        why = (f"it could not be made again: {error.get('message')}",)
        return TargetAgain(target=row.target, verdict=Verdict.NOT_REPRODUCIBLE, reasons=why)
    reasons = _status(row, now)
    details: dict[str, Any] = {}
    sides = _Sides(*places, key, differ)
    if (then.error or {}).get("code") != StructuralError.code:
        # After a circuit breaker, only a sample of the first records was kept.
        for words, found in _compared(row, making, sides):
            reasons += words
            details |= found
    verdict = Verdict.DIFFERENT if reasons else Verdict.REPRODUCED
    return TargetAgain(
        target=row.target, verdict=verdict, reasons=tuple(reasons), result=now, details=details
    )


def _status(row: Materialization, now: AssetResult) -> list[str]:
    """Compare how the target ended. A result that a person rejected later still counts as made."""
    then = result_of(row)
    made = row.content_digest is not None and then.status is not Status.HALTED
    was = Status.SUCCESS if made else then.status
    codes = [(one.error or {}).get("code") for one in (then, now)]
    if now.status is was and (was is not Status.FAILED or codes[0] == codes[1]):
        return []
    words = f": {now.error['message']}" if now.error else ""
    before = f" ({codes[0]})" if was is Status.FAILED else ""
    return [f"it was {was.value} then{before} and is {now.status.value} now{words}"]


Compared: TypeAlias = tuple[list[str], dict[str, Any]]
"""The differences in words, and their details."""


def _compared(row: Materialization, making: Making, sides: _Sides) -> Iterator[Compared]:
    yield _read("output", lambda: _rows(row, making, sides))
    yield _read("rejections", lambda: _rejections(sides))
    yield _read("ledger", lambda: _values("ledger", results.ledger_changes, sides))
    yield _read("evidence", lambda: _values("evidence", results.evidence_changes, sides))
    yield _read("outputs", lambda: _outputs(sides))


def _read(name: str, work: Callable[[], Compared]) -> Compared:
    """Compare one part; a damaged file counts as a difference."""
    try:
        return work()
    except (TallymanError, ValueError) as error:
        return [f"{name}: the run's files cannot be read: {first_line(error)}"], {}


def _values(
    name: str, changes: Callable[[Path, Path], list[results.Value]], sides: _Sides
) -> Compared:
    found = changes(sides.then, sides.now)
    words = [f"{name}: {found[0]}{_more(len(found) - 1)}"] if found else []
    return words, {name: [{"name": v.name, "then": v.then, "now": v.now} for v in found[:LIMIT]]}


# ---- rows -----------------------------------------------------------------------------------


def _rows(row: Materialization, making: Making, sides: _Sides) -> Compared:
    """Compare digests while the run's files are unchanged; otherwise compare the rows in them."""
    then, now = row.content_digest, making.digest
    facts: dict[str, Any] = {"digest_then": then, "digest_now": now, "difference": None}
    intact, gone = results.as_written(sides.then), results.output_gone(sides.then)
    if then == now and then and (intact or gone):
        return [], {"rows": facts}
    digests = f"rows: digest {then} recorded, {now} now"
    if gone:
        return [f"{digests}; its own files were removed, so no row can be shown"], {"rows": facts}
    found: Mapping[str, Any] | None = None
    try:
        found = sides.rows()
        words = _row_counts(found)
    except TallymanError as error:
        words = [f"rows: {error}"]
    if words and not intact:
        words.append("the run's own output files were changed since: see `tallyman verify`")
    if not words and then != now:
        words = [f"{digests}, but the files contain the same rows"]
    return words, {"rows": facts | {"difference": found if words else None}}


def _row_counts(found: Mapping[str, Any]) -> list[str]:
    counts = {kind: int(found[kind]) for kind in ("added", "removed", "changed")}
    if not any(counts.values()):
        return []
    listed = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    how = "" if found["by_key"] else " (no unique key: whole rows compared)"
    return [f"rows: {listed}{how}"]


# ---- rejections and outputs -----------------------------------------------------------------


def _rejections(sides: _Sides) -> Compared:
    found = results.rejection_changes(sides.then, sides.now, LIMIT)
    words = [f"rejections: {found.added:,} added, {found.removed:,} removed"]
    return [] if found.same else words, {"rejections": found.to_json()}


def _outputs(sides: _Sides) -> Compared:
    """Compare the files that output steps wrote."""
    before, after = (results.written_by_steps(place) for place in (sides.then, sides.now))
    reasons: list[str] = []
    details: dict[str, Any] = {}
    for name in dict.fromkeys([*before, *after]):
        if (name in before) != (name in after):
            reasons.append(f"output {name}: {'only then' if name in before else 'only now'}")
            continue
        form, then = before[name]
        if form == "parquet":
            found = dict(sides.differ(then, after[name][1], (), LIMIT))
        else:
            found = results.text_changes(then, after[name][1], form, LIMIT).to_json()
        if found["added"] or found["removed"]:
            reasons.append(f"output {name}: {found['added']:,} added, {found['removed']:,} removed")
            details[name] = found
    return reasons, {"outputs": details}


def _more(count: int) -> str:
    return f" (and {count:,} more)" if count > 0 else ""
