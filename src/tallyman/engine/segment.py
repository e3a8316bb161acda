"""Inside a segment rows are never dropped: each carries its key, where it ended, and why.

A step that ends a row only tags it. Later expressions are guarded by the tag: under ANSI rules an
expression on a row that an earlier filter removed would raise.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField

from tallyman.domain.fate import Fate
from tallyman.domain.rejection import ErrorType, Rule
from tallyman.domain.step import Drop, Expect, Filter, Join, Rename, Select, WithColumns
from tallyman.engine import plain
from tallyman.engine.book import FANOUT, Book
from tallyman.engine.columns import (
    CORRUPT,
    ERROR,
    KEY,
    LIVE,
    PART,
    PLACE,
    REJECTIONS,
    cannot_raise,
    col,
    mentioned,
    quoted,
    text_of,
    to_column,
)
from tallyman.engine.plain import MATCHES
from tallyman.engine.source import Input, LinesInput

REJECTION = "struct<rule:int,actual:string>"


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows on their way, with the user's columns in order and what is carried beside them."""

    rows: DataFrame
    columns: tuple[str, ...]
    key_columns: tuple[str, ...] | None
    """The user's columns that still hold the key, if they do."""
    tagged: bool = False
    level: int = 0
    after_group: bool = False
    beside: tuple[str, ...] = ()
    """Further columns of ours that go with every row."""
    placed: bool = False
    """Whether the rows carry the place of their record, because keys do not tell records apart."""

    @property
    def untouched_groups(self) -> bool:
        """Groups as the aggregation made them: no step since could end one."""
        return self.after_group and not self.tagged

    def carried(self) -> list[str]:
        tags = [PART, REJECTIONS] if self.tagged else []
        return [KEY, *tags, *self.place(), *self.beside]

    def place(self) -> list[str]:
        return [PLACE] if self.placed else []

    def live(self, value: Column) -> Column:
        return F.when(F.col(PART) == LIVE, value) if self.tagged else value

    def with_tags(self) -> Flow:
        if self.tagged:
            return self
        tags = {PART: F.lit(LIVE), REJECTIONS: F.lit(None).cast(f"array<{REJECTION}>")}
        return replace(self, rows=self.rows.withColumns(tags), tagged=True)

    def choose(self, chosen: Sequence[Column], names: Sequence[str]) -> Flow:
        rows = self.rows.select(*chosen, *self.carried())
        return replace(self, rows=rows, columns=tuple(names))

    def without_key(self, touched: Sequence[str]) -> Flow:
        """After columns were written over: the key is no longer read from them."""
        lowered = {name.lower() for name in touched}
        if self.key_columns and lowered & {name.lower() for name in self.key_columns}:
            return replace(self, key_columns=None)
        return self


def _rejection(rule: int, actual: Column) -> Column:
    text = F.coalesce(actual.cast("string"), F.lit("NULL"))
    return F.struct(F.lit(rule).alias("rule"), text.alias("actual"))


def _appended(rejection: Column) -> Column:
    none = F.array().cast(f"array<{REJECTION}>")
    return F.array_append(F.coalesce(F.col(REJECTIONS), none), rejection)


# ---- at the door ---------------------------------------------------------------------------


def admit(source: Input, book: Book, read: Collection[str]) -> Flow:
    """Records as they enter: what could not be read is already an ERROR with its reasons.

    Only columns that the plan reads, or the schema requires, can reject a record.
    """
    names = tuple(f.name for f in source.schema if f.name in read or not f.nullable)
    known = source.every_record_keyed and len(source.key) == 1 and source.key[0] in names
    key = source.key if known else None
    placed = source.places is not None
    if not source.rejects:
        return Flow(source.records(names), names, key, placed=placed)
    admitted = [_tagged(part, rows, names, book) for part, rows in source.parts(names)]
    rows = reduce(DataFrame.unionByName, admitted)
    return Flow(rows, names, key, tagged=True, placed=placed)


def _tagged(source: Input, records: DataFrame, names: Sequence[str], book: Book) -> DataFrame:
    required = [f.name for f in source.schema if not f.nullable]
    missing = {
        name: book.rule(_ingest_rule(ErrorType.NULL, source.name, name, "not null"))
        for name in required
    }
    absent = [F.when(col(n).isNull(), _rejection(r, F.lit("NULL"))) for n, r in missing.items()]
    found = F.array_compact(F.array(*absent)) if absent else F.array()
    is_absent = F.lit(False)
    for name in required:
        is_absent = is_absent | col(name).isNull()
    if isinstance(source, LinesInput):
        bad = F.col(CORRUPT).isNotNull()
        reasons = F.when(bad, _diagnosis(source, book, missing, set(names))).otherwise(found)
    else:
        bad, reasons = F.lit(False), found
    wrong = bad | is_absent
    tags = {
        PART: F.when(wrong, ERROR).otherwise(LIVE),
        REJECTIONS: F.when(wrong, reasons.cast(f"array<{REJECTION}>")),
    }
    place = [PLACE] if source.places is not None else []
    return records.withColumns(tags).select(*map(col, names), KEY, PART, REJECTIONS, *place)


def _ingest_rule(kind: ErrorType, entity: str, name: str, expected: str) -> Rule:
    return Rule(
        error_type=kind,
        path=f"{entity}.{name}",
        expected=expected,
        entity=entity,
        field=name,
        step="ingest",
    )


def _diagnosis(source: LinesInput, book: Book, missing: dict[str, int], read: set[str]) -> Column:
    """Field by field, what is wrong with a line; asked only about the few lines that need it."""
    text = F.col(CORRUPT)
    fields = source.positions
    strings = [StructField(f.name, StringType()) for f in fields]
    raw = source.parse(text, strings)
    shape = "one JSON object on the line" if source.format == "json" else f"{len(fields)} fields"
    parse = book.rule(_ingest_rule(ErrorType.PARSE, source.name, "line", shape))
    reasons = []
    for number, declared in enumerate(fields):
        if declared.name not in read:
            continue
        kind = declared.dataType.simpleString()
        rule = book.rule(_ingest_rule(ErrorType.TYPE_CAST, source.name, declared.name, kind))
        alone = (
            [declared]
            if source.format == "json"
            else [declared if i == number else s for i, s in enumerate(strings)]
        )
        misfit = source.parse(text, alone).getField(CORRUPT).isNotNull()
        value = raw.getField(declared.name)
        reason = F.when(misfit, _rejection(rule, value))
        if declared.name in missing:
            absent = _rejection(missing[declared.name], F.lit("NULL"))
            reason = F.when(misfit, _rejection(rule, value)).when(value.isNull(), absent)
        reasons.append(reason)
    listed = F.array_compact(F.array(*reasons))
    broken = F.array(_rejection(parse, F.expr(f"make_valid_utf8({CORRUPT})")))
    unreadable = raw.getField(CORRUPT).isNotNull() | (F.size(listed) == 0)
    return F.when(unreadable, broken).otherwise(listed)


# ---- steps ---------------------------------------------------------------------------------


def select(flow: Flow, step: Select) -> Flow:
    chosen: list[Column] = []
    names: list[str] = []
    listed = plain.selected(step, flow.columns)
    for expression in [single for each in listed for single in _fields(flow, each)]:
        name = flow.rows.select(expression).columns[0]
        bare = text_of(expression).strip("`") in flow.columns
        chosen.append(expression if bare else flow.live(expression).alias(name))
        names.append(name)
    kept = set(names)
    made = [n for n, c in zip(names, chosen, strict=True) if text_of(c).strip("`") != n]
    lost = [k for k in flow.key_columns or () if k not in kept]
    return flow.choose(chosen, names).without_key([*made, *lost])


def _fields(flow: Flow, expression: Column) -> list[Column]:
    """`place.*` as one expression per field, so that each can be guarded."""
    text = text_of(expression)
    if not text.endswith(".*"):
        return [expression]
    names = flow.rows.select(expression).columns
    return [F.expr(text.removesuffix("*") + quoted(name)) for name in names]


def drop(flow: Flow, step: Drop) -> Flow:
    kept = [name for name in flow.columns if name not in step.columns]
    return flow.choose([col(name) for name in kept], kept).without_key(step.columns)


def with_columns(flow: Flow, step: WithColumns) -> Flow:
    made = {name: flow.live(to_column(e, flow.columns)) for name, e in step.columns}
    # Spark finds the column to replace whatever its case, and then spells it as the new one.
    anew = {name.lower(): name for name in made}
    names = [anew.pop(name.lower(), name) for name in flow.columns]
    names += anew.values()
    chosen = [made[n].alias(n) if n in made else col(n) for n in names]
    return flow.choose(chosen, names).without_key(list(made))


def rename(flow: Flow, step: Rename) -> Flow:
    names = [step.new if name == step.old else name for name in flow.columns]
    chosen = [col(o).alias(n) for o, n in zip(flow.columns, names, strict=True)]
    renamed = flow.choose(chosen, names)
    if renamed.key_columns and step.old in renamed.key_columns:
        if len(renamed.key_columns) > 1:
            return replace(renamed, key_columns=None)
        return replace(renamed, key_columns=(step.new,))
    return renamed


def filter_(flow: Flow, step: Filter, morphism_id: str, book: Book) -> Flow:
    """False and NULL both end here: a row cannot fall between a predicate and its negation."""
    text = text_of(step.predicate)
    why = f"Records filtered: {step.reason}" if step.reason else f"Records filtered by NOT ({text})"
    flow = flow.with_tags()
    ended = book.part(Fate.FILTERED, morphism_id, why, text, flow.level)
    keep = F.coalesce(to_column(step.predicate, flow.columns), F.lit(False))
    return end_unless(flow, keep, ended)


def end_unless(flow: Flow, keep: Column, ended: int) -> Flow:
    part = F.when(F.col(PART) == LIVE, F.when(keep, LIVE).otherwise(ended))
    return replace(flow, rows=flow.rows.withColumn(PART, part.otherwise(F.col(PART))))


def expect(flow: Flow, step: Expect, morphism_id: str, book: Book) -> Flow:
    """A live row must be shown to hold; one that failed before only adds what is plainly false."""
    flow = flow.with_tags()
    asked = mentioned([step.predicate], flow.columns)
    kind = ErrorType.VALIDATION if flow.after_group else ErrorType.REFINEMENT
    rule = book.rule(
        Rule(
            error_type=kind,
            path=f"{book.asset}.{step.rule}",
            expected=text_of(step.predicate),
            entity=book.asset,
            field=",".join(asked) or step.rule,
            step=morphism_id,
            own_code=step.code,
        )
    )
    holds = to_column(step.predicate, flow.columns)
    rejection = _appended(_rejection(rule, _values(asked)))
    types = {f.name: f.dataType for f in flow.rows.select(*map(col, asked)).schema}
    reasons = F.when(
        F.col(PART) == LIVE,
        F.when(F.coalesce(holds, F.lit(False)), F.col(REJECTIONS)).otherwise(rejection),
    )
    if cannot_raise(step.predicate, types):
        failed = F.when(~holds, rejection).otherwise(F.col(REJECTIONS))
        reasons = reasons.when(F.col(PART) == ERROR, failed)
    keep = F.coalesce(holds, F.lit(False))
    part = F.when(F.col(PART) == LIVE, F.when(keep, LIVE).otherwise(ERROR)).otherwise(F.col(PART))
    tags = {REJECTIONS: reasons.otherwise(F.col(REJECTIONS)), PART: part}
    return replace(flow, rows=flow.rows.withColumns(tags))


def _values(names: Sequence[str]) -> Column:
    if not names:
        return F.lit("NULL")
    if len(names) == 1:
        return col(names[0]).cast("string")
    shown = [col(name).cast("string").alias(name) for name in names]
    return F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})


# ---- joins ---------------------------------------------------------------------------------


def join(flow: Flow, step: Join, reference: DataFrame, morphism_id: str, book: Book) -> Flow:
    """Each row meets at most one row of the reference, grouped by its key: rows cannot multiply."""
    pairs = plain.join_pairs(step.on, flow.columns, reference.columns)
    flow = flow.with_tags()
    rows = plain.looked_up(flow.rows, reference, pairs)
    shared = {right for _, right in pairs} if plain.shares_names(step.on) else set()
    added = [name for name in reference.columns if name not in shared]
    new = [F.col(plain.REFERENCE).getField(name).alias(name) for name in added]
    rows = rows.select(*map(col, flow.columns), *new, *flow.carried(), MATCHES)
    flow = replace(flow, rows=rows, columns=plain.joined_columns(step.on, flow.columns, added))
    flow = _unmatched(flow, step, [left for left, _ in pairs], morphism_id, book)
    if step.fanout == "error":
        flow = refuse_several(flow, morphism_id, book)
    return replace(flow, rows=flow.rows.drop(MATCHES))


def refuse_several(flow: Flow, morphism_id: str, book: Book) -> Flow:
    """A row that met more than one row of the reference makes the step fail."""
    many = book.part(None, f"{morphism_id}.{FANOUT}", f"{morphism_id}: more than one match", "", 0)
    return end_unless(flow, F.coalesce(F.col(MATCHES), F.lit(1)) <= 1, many)


def _unmatched(flow: Flow, step: Join, keys: Sequence[str], morphism_id: str, book: Book) -> Flow:
    text = (
        text_of(step.on) if not isinstance(step.on, (list, tuple)) else ", ".join(map(str, step.on))
    )
    matched = F.col(MATCHES).isNotNull()
    if step.unmatched == "keep":
        return flow
    if step.unmatched == "filter":
        why = f"Records without a match in {step.other.input}"
        return end_unless(
            flow, matched, book.part(Fate.FILTERED, morphism_id, why, text, flow.level)
        )
    rule = book.rule(
        Rule(
            error_type=ErrorType.JOIN,
            path=f"{book.asset}.{morphism_id}",
            expected=f"a row of {step.other.input} with {text}",
            entity=book.asset,
            field=",".join(keys),
            step=morphism_id,
        )
    )
    has_key = F.lit(True)
    for key in keys:
        has_key = has_key & col(key).isNotNull()
    rejection = _appended(_rejection(rule, _values(keys)))
    fails = (F.col(PART) == LIVE) & ~matched
    also = (F.col(PART) == ERROR) & ~matched & has_key
    tags = {
        REJECTIONS: F.when(fails | also, rejection).otherwise(F.col(REJECTIONS)),
        PART: F.when(fails, ERROR).otherwise(F.col(PART)),
    }
    return replace(flow, rows=flow.rows.withColumns(tags))
