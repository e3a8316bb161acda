"""Arguments of the verbs of a Frame, checked where they are written, in the author's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tallyman.domain.definition.expression import Given
from tallyman.errors import UsageError

SAFE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%|([0-9]+)")
ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
OUTPUT_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}

ALTERNATIVES: Mapping[str, str] = {
    "limit": "Use filter on a key or a date, so that the rows left out have a reason.",
    "head": "Use `tallyman show`, or read the output after the run.",
    "sample": 'Use filter on a hash of the key, for example "pmod(xxhash64(id), 100) < 5".',
    "rdd": "Use withColumn, filter and expect with SQL expressions.",
    "mapInPandas": "Use withColumn with SQL functions; a Python function per batch hides its rows.",
    "mapInArrow": "Use withColumn with SQL functions; a Python function per batch hides its rows.",
    "dropna": 'Use expect (reject) or filter (drop) with "column IS NOT NULL".',
    "fillna": 'Use withColumn with "coalesce(column, value)".',
    "distinct": "Use dropDuplicates(), which records the rows it leaves out.",
    "subtract": 'Use join(..., unmatched="keep") and filter.',
    "intersect": 'Use join(..., unmatched="filter").',
    "exceptAll": 'Use join(..., unmatched="keep") and filter.',
    "crossJoin": 'Use join(..., fanout="expand"), which records parent and child.',
    "collect": "An asset only describes its steps; read the output after the run.",
    "count": "The ledger counts every step; see `tallyman show`.",
    "show": "An asset only describes its steps; use `tallyman show` after the run.",
    "orderBy": "Rows of a dataset have no order; sort where you read.",
    "sort": "Rows of a dataset have no order; sort where you read.",
    "selectExpr": "Use select: it takes SQL expressions.",
    "agg": "Use groupBy(...).agg(...).",
    "cache": "Each segment is evaluated once anyway.",
    "persist": "Each segment is evaluated once anyway.",
    "repartition": "The engine decides the partitioning; set spark conf in tallyman.yaml.",
    "write": "Return the Frame: the engine writes it; output(path) writes a copy to a file.",
}


def step_name(name: str | None) -> str | None:
    if name is not None and not SAFE_NAME.fullmatch(name):
        raise UsageError(f"step name {name!r}: use letters, digits, '.', '_' and '-', at most 64")
    return name


def step_number(seq: int | None) -> int | None:
    if seq is not None and (not isinstance(seq, int) or isinstance(seq, bool) or seq < 1):
        raise UsageError(f"seq {seq!r}: the number of a step must be 1 or more")
    return seq


def most(what: str, given: object) -> str | None:
    """Return a limit as text: a number of records, or a share such as `5%`."""
    if given is None:
        return None
    found = SHARE.fullmatch(str(given).strip())
    if isinstance(given, (bool, float)) or not found:
        raise UsageError(f'{what} is a share such as "5%", or a number of records, not {given!r}')
    return f"{found[1]}%" if found[1] else str(found[2])


def condition(where: Given | None) -> Given | None:
    """Treat a blank condition as none."""
    return None if isinstance(where, str) and not where.strip() else where


def group(by: object) -> tuple[str, ...]:
    listed = (by,) if isinstance(by, str) else tuple(by)  # type: ignore[arg-type]
    if not listed or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"by {by!r}: name at least one column to group by")
    if len(set(listed)) != len(listed):
        raise UsageError(f"by {by!r}: a column is named twice")
    return listed


def aggregates_of(given: Mapping[str, Given]) -> tuple[tuple[str, Given], ...]:
    if not given:
        raise UsageError('aggregate needs at least one, for example total="sum(price)"')
    return tuple(given.items())


def aggregate_of(
    given: Mapping[str, object],
) -> tuple[tuple[str, ...], dict[str, Given], str]:
    unknown = ", ".join(repr(key) for key in given if key not in ("by", "set"))
    made = given.get("set")
    if not isinstance(made, Mapping):
        raise UsageError('append, aggregate: write {"by": [...], "set": {"column": "sum(x)"}}')
    return group(given.get("by", ())), dict(aggregates_of(made)), unknown


def check_path(path: str) -> None:
    pieces = path.split("/")
    if not path or path.startswith("/") or ".." in pieces or "\\" in path or "\0" in path:
        raise UsageError(f"output to {path!r}: use a path in the project, such as exports/gl.csv")


def one_of(what: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise UsageError(f"{what} is {' or '.join(map(repr, allowed))}, not {given!r}")
