"""The tags of rows in SQL: where a row ended, and which rules it broke.

Written as text: to build the same of Columns takes some ten calls into Java for each piece.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.engine.expressions.column_names import (
    ERROR,
    LIVE,
    PART,
    REJECTIONS,
    literal,
    quoted,
)
from tallyman.engine.expressions.redact import Redaction

REJECTION = "struct<rule:int,actual:string>"
NO_REJECTIONS = f"CAST(NULL AS array<{REJECTION}>)"
IS_LIVE = f"{PART} = {LIVE}"
FALSE = "false"


def surely(condition: str) -> str:
    """Write a condition that is false where the given one is NULL."""
    return f"coalesce({condition}, {FALSE})"


def part_unless(keep: str, ended: int) -> str:
    """Write the part of rows of which the live ones end unless the condition holds."""
    ending = f"CASE WHEN {keep} THEN {LIVE} ELSE {ended} END"
    return f"CASE WHEN {IS_LIVE} THEN {ending} ELSE {PART} END"


def part_if(fails: str) -> str:
    """Write the part of rows that are rejected where the condition holds."""
    return f"CASE WHEN {fails} THEN {ERROR} ELSE {PART} END"


def reasons_unless(holds: str, charged: str, also: str | None) -> str:
    """Write the rejections of live rows that break a rule, and of rejected rows where `also` holds
    (None: never)."""
    live = f"CASE WHEN {surely(holds)} THEN {REJECTIONS} ELSE {charged} END"
    more = ""
    if also is not None:
        failed = f"CASE WHEN {also} THEN {charged} ELSE {REJECTIONS} END"
        more = f" WHEN {PART} = {ERROR} THEN {failed}"
    return f"CASE WHEN {IS_LIVE} THEN {live}{more} ELSE {REJECTIONS} END"


def reasons_if(fails: str, charged: str) -> str:
    return f"CASE WHEN {fails} THEN {charged} ELSE {REJECTIONS} END"


def charge(rule: int, names: Sequence[str], redaction: Redaction) -> str:
    """Write the rejections of a row with one more, which shows the values of these columns."""
    one = rejection(rule, _values(names, redaction))
    before = f"coalesce({REJECTIONS}, CAST(array() AS array<{REJECTION}>))"
    return f"array_append({before}, {one})"


def rejection(rule: int, actual: str) -> str:
    return f"named_struct('rule', {rule}, 'actual', coalesce(CAST({actual} AS STRING), 'NULL'))"


def broke(rules: frozenset[int]) -> str:
    """Write a condition: the record already broke one of these rules."""
    if not rules:
        return FALSE
    numbers = ", ".join(map(str, sorted(rules)))
    return surely(f"arrays_overlap({REJECTIONS}.rule, array({numbers}))")


def has_all(names: Sequence[str]) -> str:
    return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names) or "true"


def _values(names: Sequence[str], redaction: Redaction) -> str:
    if not names:
        return "'NULL'"
    if len(names) == 1:
        return redaction.shown(names[0], quoted(names[0]))
    shown = ", ".join(f"{literal(name)}, {redaction.shown(name, quoted(name))}" for name in names)
    return f"to_json(named_struct({shown}), map('ignoreNullFields', 'false'))"
