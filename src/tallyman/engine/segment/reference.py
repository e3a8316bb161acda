"""References: joined inputs without a ledger, so that every record must be readable.

All of them are opened, counted and checked before any step is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.reference_tally import ReferenceTally
from tallyman.domain.account.rejection import ErrorType
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import inputs_read, lookups, step_ids
from tallyman.domain.definition.step_facts import Lookup
from tallyman.engine.expressions.column_names import ERROR, PART, PLACE, REJECTIONS
from tallyman.engine.expressions.columns import col
from tallyman.engine.files import parquet
from tallyman.engine.files.parquet_types import is_plain
from tallyman.engine.plan import in_place, plain
from tallyman.engine.segment.admit import SAME_TEXT, admit
from tallyman.engine.segment.fate_book import Book, LookedUp
from tallyman.engine.source.source import Input
from tallyman.engine.spark import small_tables
from tallyman.errors import JoinFanOut, ReferenceRejected

FEW = 100_000
"""The most records of a reference whose keys are compared in this process."""
SHOWN = 3
"""The number of records, or of repeated keys, that an error names."""


@dataclass
class References:
    """The inputs in which the steps of a plan look rows up."""

    book: Book
    plan: Frame
    inputs: Mapping[str, Input]
    rows: dict[str, DataFrame] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        found = (name for _, lookup in lookups(self.plan) for name in inputs_read(lookup.other))
        return list(dict.fromkeys(found))

    def open(self, pool: ThreadPoolExecutor) -> None:
        """Read each of them once; ReferenceRejected names records that cannot be read."""
        opened = pool.map(counted, [self.inputs[name] for name in self.names])
        for name, count in zip(self.names, opened, strict=True):
            source = self.inputs[name]
            self.counts[name] = count
            self.rows[name] = source.records().select(*map(col, source.schema.names))

    def refuse_repeated(self, pool: ThreadPoolExecutor) -> None:
        """Raise JoinFanOut if a key is on several rows of a reference that has to be unique."""
        ids = step_ids(self.plan)
        found = [(n, look) for n, look in lookups(self.plan) if n.step and not n.step.multiplies]
        nodes, once = [node for node, _ in found], [lookup for _, lookup in found]
        list(pool.map(self._refuse, [ids[node] for node in nodes], nodes, once))

    def _refuse(self, step_id: str, node: Frame, lookup: Lookup) -> None:
        rows = in_place.evaluate(lookup.other, self.rows)
        names = self._key(node, lookup, rows.columns)
        keys = [f"_tm_on{number}" for number in range(len(names))]
        chosen = [col(name).alias(key) for key, name in zip(keys, names, strict=True)]
        found = rows.select(*chosen).dropna()
        if self._distinct_here(lookup, found):
            return
        several = found.groupBy(*keys).count().where("count > 1")
        first = several.agg(F.count(F.lit(1)).alias("keys")).first()
        if first is None or not first["keys"]:
            return
        shown = self.book.redaction.shown
        said = [f"{shown(n, k)} AS {k}" for k, n in zip(keys, names, strict=True)]
        sample = several.orderBy(*keys).limit(SHOWN).selectExpr(*said, "count").collect()
        samples = [
            f"{', '.join(f'{n} = {v}' for n, v in zip(names, row, strict=False))} ({row[-1]} rows)"
            for row in sample
        ]
        name = lookup.other.input
        raise JoinFanOut(self.book.asset, step_id, name, first["keys"], samples)

    def _distinct_here(self, lookup: Lookup, keys: DataFrame) -> bool:
        """True if the keys are few and, compared in this process, distinct: Spark would shuffle."""
        steps = list(lookup.other.steps())
        more = any(step.multiplies or step.inflow or step.references for step in steps)
        if more or not parquet.few(self.counts[lookup.other.input], FEW):
            return False
        kinds = [field.dataType for field in keys.schema]
        if not is_plain(keys.schema) or not all(isinstance(kind, SAME_TEXT) for kind in kinds):
            return False
        listed = keys.collect()
        return len({*listed}) == len(listed)

    def _key(self, node: Frame, lookup: Lookup, columns: Sequence[str]) -> list[str]:
        """List the columns of the reference that are compared with those of the rows."""
        on = in_place.equalities(lookup)
        pairs = plain.join_pairs(on, (), columns)
        if not plain.shares_names(on) and any({*pair} <= {*columns} for pair in pairs):
            # Both sides may be meant: the columns of the rows decide.
            assert node.parent is not None
            empty = {n: small_tables.empty(s.spark, s.schema) for n, s in self.inputs.items()}
            left = in_place.evaluate(node.parent, empty).columns
            return [right for _, right in plain.join_pairs(on, left, columns)]
        return [right if right in columns else left for left, right in pairs]

    def tallies(self) -> tuple[ReferenceTally, ...]:
        """List what each step looked up. Rows of a working set are looked up in several parts."""
        found: dict[tuple[str, str], ReferenceTally] = {}
        for one in self.book.looked_up:
            for name in inputs_read(one.lookup.other):
                known = found.get((one.step_id, name))
                counted = one if name == one.lookup.other.input else None
                found[one.step_id, name] = self._tally(one.step_id, name, counted, known)
        return tuple(found.values())

    def _tally(
        self, step: str, name: str, one: LookedUp | None, known: ReferenceTally | None
    ) -> ReferenceTally:
        rows, watched = self.counts[name], one.watched if one else None
        if one is None or watched is None or not watched.found:
            return known or ReferenceTally(step=step, name=name, rows=rows)
        earlier = (known.looked_up or 0, known.unmatched or 0) if known else (0, 0)
        return ReferenceTally(
            step=step,
            name=name,
            rows=rows,
            looked_up=watched.found["looked_up"] + earlier[0],
            unmatched=watched.found["count"] + earlier[1],
            limit=one.limit,
            of_records=watched.level == 0,
        )


def counted(source: Input) -> int:
    """Count the records of a reference; ReferenceRejected names those that cannot be read."""
    if source.fits and source.remembered is not None:
        return source.remembered.digest.count
    if not source.rejects:
        return source.at_most()
    seen, bad = seen_and_bad(admit(source, Book(source.name), ()).rows)
    if bad:
        raise ReferenceRejected(source.name, bad, _rejected(source))
    return seen


def _rejected(source: Input) -> list[str]:
    """Describe a few records that cannot be read: file, place, column and value."""
    book = Book(source.name, redaction=source.redaction)
    rows = admit(source.with_places(""), book, ()).rows.where(F.col(PART) == ERROR)
    first = rows.selectExpr(PLACE, f"{REJECTIONS}[0] AS reason").orderBy(PLACE).limit(SHOWN)
    return [_said(source, book, row[PLACE], row["reason"]) for row in first.collect()]


def _said(source: Input, book: Book, place: str, reason: Mapping[str, Any]) -> str:
    file, _, number = place.removeprefix("@").rpartition("#")
    at = f"{file}, {'line' if source.textual else 'row'} {number}"
    rule, actual = book.rules[reason["rule"]], str(reason["actual"])[:80]
    if rule.error_type is ErrorType.PARSE:
        return f"{at}: {actual!r} is not {rule.expected}"
    if rule.error_type is ErrorType.NULL:
        return f"{at}: column {rule.field} has no value"
    return f"{at}: column {rule.field}: {actual!r} is not {rule.expected}"


def seen_and_bad(admitted: DataFrame) -> tuple[int, int]:
    """Count the records, and those that could not be read."""
    bad = F.count_if(F.col(PART) == ERROR).alias("bad")
    row = admitted.agg(F.count(F.lit(1)).alias("seen"), bad).first()
    return (row["seen"], row["bad"]) if row else (0, 0)
