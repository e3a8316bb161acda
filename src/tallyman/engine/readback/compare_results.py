"""Comparison of a result with the same plan's result now: ledger, rejections, evidence, files.

Only content counts, not the order of rows or how they are split into files. Without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from tallyman.domain.account import ledger_json
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.definition.canonical_json import changed
from tallyman.engine.files.duck import connect, dicts
from tallyman.engine.files.listing import hash_files
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.readback.dead_letters import FIELDS, READ, files_in
from tallyman.engine.working.working_run import outputs_in
from tallyman.errors import DatasetDamaged
from tallyman.errors.wording import first_line

TEXTS = {
    "json": "SELECT json::VARCHAR AS line FROM read_ndjson_objects({files})",
    "csv": "SELECT line FROM read_csv({files}, auto_detect = false, header = false, skip = 1, "
    "delim = '\x1f', quote = '', escape = '', columns = {{'line': 'VARCHAR'}})",
}
"""Queries that read the text file of an output step line by line, without its header."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a text that has changed."""

    name: str
    then: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.then} then, {self.now} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Multisets:
    """The comparison of two multisets: how many members only one side has, and the first of
    them.
    """

    removed: int = 0
    added: int = 0
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def same(self) -> bool:
        return not (self.removed or self.added)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ledger_changes(then: Path, now: Path) -> list[Value]:
    """Compare every count, fate and key digest."""
    sides = (_proved(ledger_in(place)) for place in (then, now))
    return list(starmap(Value, changed(*sides, lists=True)))


def _proved(ledger: StoredLedger) -> dict[str, Any]:
    """Write a ledger without hashes of files: other bytes may hold the same rows."""
    return ledger_json.to_json(replace(ledger, files=None))


def evidence_changes(then: Path, now: Path) -> list[Value]:
    """Compare the number of stored keys of each step."""
    before, after = (_evidence(place) for place in (then, now))
    return [
        Value(name, before.get(name, 0), after.get(name, 0))
        for name in sorted({*before, *after})
        if before.get(name, 0) != after.get(name, 0)
    ]


def _evidence(place: Path) -> dict[str, int]:
    """Count the rows of evidence; folders have names like files."""
    found: dict[str, int] = {}
    for file in (place / "adjoint").rglob("*.parquet"):
        if file.is_file():
            name = str(file.parent.relative_to(place))
            found[name] = found.get(name, 0) + pq.read_metadata(file).num_rows
    return found


def rejection_changes(then: Path, now: Path, limit: int) -> Multisets:
    """Compare dead letters in all their fields."""
    listed = ", ".join(name for name in FIELDS if name != "context")
    return _multisets(
        [f"SELECT {listed}, context::VARCHAR AS context FROM {READ}"] * 2,
        [files_in(then), files_in(now)],
        limit,
    )


def text_changes(then: Sequence[str], now: Sequence[str], form: str, limit: int) -> Multisets:
    """Compare the lines that an output step wrote."""
    return _multisets([TEXTS[form].format(files="$files")] * 2, [then, now], limit)


def _multisets(reads: Sequence[str], files: Sequence[Sequence[str]], limit: int) -> Multisets:
    some = files[0] or files[1]
    if not some:
        return Multisets()
    try:
        with connect() as db:
            for name, read, given in zip(("before", "after"), reads, files, strict=True):
                nothing = "" if given else " LIMIT 0"
                text = f"CREATE TABLE {name} AS {read}{nothing}"
                db.execute(text, {"files": list(given or some)})
            return _differing(db, limit)
    except duckdb.Error as error:
        raise DatasetDamaged("dead letters or texts", first_line(error)) from error


def _differing(db: duckdb.DuckDBPyConnection, limit: int) -> Multisets:
    db.execute(
        "CREATE TABLE differing AS SELECT * EXCLUDE (sign), sum(sign)::BIGINT AS copies "
        "FROM (SELECT *, 1 AS sign FROM after UNION ALL SELECT *, -1 AS sign FROM before) "
        "GROUP BY ALL HAVING sum(sign) <> 0"
    )
    counted = db.execute(
        "SELECT coalesce(-sum(copies) FILTER (copies < 0), 0)::BIGINT, "
        "coalesce(sum(copies) FILTER (copies > 0), 0)::BIGINT FROM differing"
    ).fetchone()
    assert counted is not None
    found = db.execute(f"SELECT * FROM differing ORDER BY ALL LIMIT {int(limit)}")
    return Multisets(removed=counted[0], added=counted[1], samples=tuple(dicts(found)))


# ---- the files of rows ----------------------------------------------------------------------


def rows_of(place: Path) -> list[str]:
    return [str(file) for file in sorted((place / "output").glob("*.parquet"))]


def as_written(place: Path) -> bool:
    """True if the output's files are byte for byte what the run wrote."""
    return hash_files([Path(file) for file in rows_of(place)], place) == _output_then(place)


def output_gone(place: Path) -> bool:
    """True if the output was removed together with the version made of it."""
    return bool(_output_then(place)) and not rows_of(place)


def _output_then(place: Path) -> dict[str, str]:
    listed = ledger_in(place).files or {}
    return {name: given for name, given in listed.items() if name.startswith("output/")}


def written_by_steps(place: Path) -> dict[str, tuple[str, list[str]]]:
    """List format and files of each output step."""
    return {
        one["id"]: (
            one["format"],
            [str(f) for f in sorted((place / "outputs" / one["id"]).glob("part-*"))],
        )
        for one in outputs_in(place)
    }
