"""Segments. Rows are never dropped inside: each carries its key, where it ended, and why.

A step that ends a row only tags it. Later expressions are guarded by the tag: under ANSI rules an
expression on a row that an earlier filter removed could raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.rejection import ErrorType, Rule
from tallyman.domain.definition.expression import bare_name
from tallyman.domain.definition.step import Drop, Expect, Filter, Join, Rename, Select, Warn
from tallyman.domain.definition.step_facts import Step
from tallyman.engine.expressions import sql_words
from tallyman.engine.expressions.column_names import (
    ERROR,
    KEY,
    LIVE,
    PART,
    PLACE,
    REJECTIONS,
    quoted,
)
from tallyman.engine.expressions.columns import (
    cannot_raise,
    col,
    mentioned,
    named_column,
    to_column,
    to_sql,
)
from tallyman.engine.plan import plain
from tallyman.engine.plan.plain import MATCHES
from tallyman.engine.segment import tags
from tallyman.engine.segment.fate_book import Book, LookedUp
from tallyman.engine.segment.watched import RowsSeen, Watched, observe
from tallyman.engine.spark import digest


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows on their way, with the user's columns in order and our columns next to them."""

    rows: DataFrame
    columns: tuple[str, ...]
    key_columns: tuple[str, ...] | None
    """The user's columns that still hold the key; None if they do not."""
    tagged: bool = False
    level: int = 0
    after_group: bool = False
    group_columns: tuple[str, ...] | None = None
    """The user's columns that still identify the group, if rows are groups."""
    beside: tuple[str, ...] = ()
    """Further columns of ours that are carried with every row."""
    unread: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The rules that leave a column without a value of its own when broken, by column."""
    rules: int = 0
    """The number of rules the rows may have broken so far: those with smaller numbers."""
    placed: bool = False
    """True if rows carry the place of their record, because keys do not distinguish records."""
    seen: tuple[RowsSeen, ...] = ()
    """The rules that are counted when the rows are next written."""
    known: Mapping[str, DataType] = field(default_factory=dict)
    """The types of columns that nothing was computed for, so that Spark need not be asked."""

    @property
    def untouched_groups(self) -> bool:
        """True for groups that no later step could end, identified by their own columns."""
        return self.after_group and not self.tagged and self.group_columns is not None

    def carried(self) -> list[str]:
        tags = [PART, REJECTIONS] if self.tagged else []
        return [KEY, *tags, *self.place(), *self.beside]

    def place(self) -> list[str]:
        return [PLACE] if self.placed else []

    def sources(self) -> list[str]:
        """List the columns with count and digest of a group's rows, if the group carries them."""
        return [name for name in digest.NAMES if name in self.beside]

    def live(self, value: Column) -> Column:
        return F.when(F.col(PART) == LIVE, value) if self.tagged else value

    def live_column(self, name: str, alias: str | None = None) -> Column:
        """Return a column, NULL on ended rows."""
        return F.expr(self.live_sql(name, alias))

    def live_sql(self, name: str, alias: str | None = None) -> str:
        """Write the same in SQL, because every row has many columns."""
        own, shown = quoted(name), quoted(alias or name)
        text = f"CASE WHEN {tags.IS_LIVE} THEN {own} END" if self.tagged else own
        return f"{text} AS {shown}"

    def with_tags(self) -> Flow:
        if self.tagged:
            return self
        added = self.rows.selectExpr(
            "*", f"{LIVE} AS {PART}", f"{tags.NO_REJECTIONS} AS {REJECTIONS}"
        )
        return replace(self, rows=added, tagged=True)

    def choose(self, chosen: Sequence[Column], names: Mapping[str, str | None]) -> Flow:
        """Choose columns; `names` maps each to the column it was, None if it is computed."""
        rows = self.rows.select(*chosen, *self.carried())
        known = {new: self.known[old] for new, old in names.items() if old in self.known}
        return replace(self, rows=rows, columns=tuple(names), known=known)

    def types(self, names: Sequence[str]) -> dict[str, DataType]:
        """Return the types of columns; Spark analyzes the whole plan for one that is not known."""
        if all(name in self.known for name in names):
            return {name: self.known[name] for name in names}
        return {f.name: f.dataType for f in self.rows.select(*map(col, names)).schema}

    def without_key(self, touched: Sequence[str]) -> Flow:
        """Forget key columns that were overwritten."""
        lowered = {name.lower() for name in touched}
        found = self
        if self.key_columns and lowered & {name.lower() for name in self.key_columns}:
            found = replace(found, key_columns=None)
        if self.group_columns and lowered & {name.lower() for name in self.group_columns}:
            found = replace(found, group_columns=None)
        return found

    def computed(self, names: Iterable[str]) -> Flow:
        """Note computed columns: they have a value only on live rows."""
        before = frozenset(range(self.rules))
        return replace(self, unread={**self.unread, **dict.fromkeys(names, before)})

    def lacks(self, names: Iterable[str]) -> frozenset[int]:
        """List the rules that leave one of the columns without a value when broken."""
        return frozenset().union(*(self.unread.get(name, frozenset()) for name in names))


# ---- steps ---------------------------------------------------------------------------------


def select(flow: Flow, step: Select) -> Flow:
    listed = plain.listed(step, flow.columns)
    singles = [single for each in listed for single in _fields(flow, each)]
    computed = {
        one: named_column(one, flow.rows, flow.columns)
        for one in singles
        if _bare(flow, one) is None
    }
    given = flow.rows.select(*computed.values()).columns if computed else []
    named = dict(zip(computed, given, strict=True))
    chosen: list[Column] = []
    names: dict[str, str | None] = {}
    for expression in singles:
        bare = _bare(flow, expression)
        name = bare or named[expression]
        chosen.append(col(name) if bare else flow.live(computed[expression]).alias(name))
        names[name] = bare
    made = [name for name, bare in names.items() if bare is None]
    held = (*(flow.key_columns or ()), *(flow.group_columns or ()))
    lost = [name for name in held if name not in names]
    return flow.choose(chosen, names).without_key([*made, *lost]).computed(made)


def _bare(flow: Flow, expression: str) -> str | None:
    """Return the column that the expression only names."""
    name = bare_name(expression)
    return next((each for each in (expression, name) if each in flow.columns), None)


def _fields(flow: Flow, expression: str) -> list[str]:
    """Split `place.*` into one expression per field, so that each can be guarded."""
    *_, dot, star = (None, *sql_words.tokens(expression))
    if dot is None or (dot.value, star.value) != (".", "*"):
        return [expression]
    names = flow.rows.select(F.expr(expression)).columns
    return [expression[: star.start] + quoted(name) for name in names]


def drop(flow: Flow, step: Drop) -> Flow:
    kept = [name for name in flow.columns if name not in step.columns]
    same = {name: name for name in kept}
    return flow.choose([col(name) for name in kept], same).without_key(step.columns)


def with_columns(flow: Flow, step: Step) -> Flow:
    """Assign the step's columns on the live rows."""
    made = {name: flow.live(to_column(e, flow.columns)) for name, e in step.values().items()}
    # Spark ignores case when it finds the column to replace, and then uses the new spelling.
    added = {name.lower(): name for name in made}
    names = [added.pop(name.lower(), name) for name in flow.columns]
    names += added.values()
    chosen = [made[n].alias(n) if n in made else col(n) for n in names]
    origins = {name: None if name in made else name for name in names}
    return flow.choose(chosen, origins).without_key(list(made)).computed(made)


def rename(flow: Flow, step: Rename) -> Flow:
    names = [step.new if name == step.old else name for name in flow.columns]
    chosen = [col(o).alias(n) for o, n in zip(flow.columns, names, strict=True)]
    unread = {n: flow.lacks([o]) for o, n in zip(flow.columns, names, strict=True)}
    origins = dict(zip(names, flow.columns, strict=True))
    renamed = replace(flow.choose(chosen, origins), unread=unread)
    if step.old in (renamed.group_columns or ()):
        renamed = replace(renamed, group_columns=None)
    if renamed.key_columns and step.old in renamed.key_columns:
        if len(renamed.key_columns) > 1:
            return replace(renamed, key_columns=None)
        return replace(renamed, key_columns=(step.new,))
    return renamed


def filter_(flow: Flow, step: Filter, step_id: str, book: Book) -> Flow:
    """End rows with false and with NULL: no row falls between a predicate and its negation."""
    text = step.predicate
    why = f"Records filtered: {step.reason}" if step.reason else f"Records filtered by NOT ({text})"
    flow = flow.with_tags()
    ended = book.part(Fate.FILTERED, step_id, why, text, flow.level)
    return end_unless(flow, tags.surely(to_sql(step.predicate, flow.columns)), ended)


def end_unless(flow: Flow, keep: str, ended: int) -> Flow:
    """End live rows unless the condition, in SQL, holds."""
    part = F.expr(tags.part_unless(keep, ended))
    return replace(flow, rows=flow.rows.withColumn(PART, part))


def expect(flow: Flow, step: Expect, step_id: str, book: Book) -> Flow:
    """Reject live rows unless the rule holds; rows that failed before only if it is plainly false.

    Nothing is known about an unreadable field, so no rule over it is broken.
    """
    flow = flow.with_tags()
    asked = mentioned([step.predicate], flow.columns)
    kind = ErrorType.VALIDATION if flow.after_group else ErrorType.REFINEMENT
    rule = book.rule(
        Rule(
            error_type=kind,
            path=f"{book.asset}.{step.rule}",
            expected=step.predicate,
            entity=book.asset,
            field=",".join(asked) or step.rule,
            step=step_id,
            own_code=step.code,
            fatal=step.severity == "fail",
        )
    )
    holds = to_sql(step.predicate, flow.columns)
    also = None
    if cannot_raise(step.predicate, flow.types(asked)):
        also = f"NOT {holds} AND NOT {tags.broke(flow.lacks(asked))}"
    charged = tags.charge(rule, asked, book.redaction)
    reasons = tags.reasons_unless(holds, charged, also)
    flow = _tagged(flow, tags.part_unless(tags.surely(holds), ERROR), reasons)
    return replace(flow, rules=len(book.rules))


def _tagged(flow: Flow, part: str, reasons: str) -> Flow:
    rows = flow.rows.withColumns({REJECTIONS: F.expr(reasons), PART: F.expr(part)})
    return replace(flow, rows=rows)


def warn(flow: Flow, step: Warn, step_id: str, book: Book) -> Flow:
    """Count live rows that break the rule, while the segment is written."""
    holds = F.coalesce(to_column(step.predicate, flow.columns), F.lit(False))
    live = F.col(PART) == LIVE if flow.tagged else F.lit(True)
    key = F.when(live & ~holds, F.col(KEY))
    counts = (F.count_if(live & ~holds).alias("count"), F.min(key).alias("example"))
    rows, observed = observe(flow.rows, f"{book.asset} {step_id}", counts)
    text = step.predicate
    watched = Watched(step.rule, step_id, text, flow.level, flow.rows, counts)
    book.warnings.append(watched)
    return replace(flow, rows=rows, seen=(*flow.seen, RowsSeen((observed,), watched)))


def counted(flow: Flow) -> Flow:
    """Count the rows, unless something counts them already."""
    if flow.seen:
        return flow
    rows, observed = observe(flow.rows, "rows", ())
    return replace(flow, rows=rows, seen=(RowsSeen((observed,)),))


# ---- joins ---------------------------------------------------------------------------------


def join(flow: Flow, step: Join, reference: DataFrame, step_id: str, book: Book) -> Flow:
    """Look up at most one row of the reference, grouped by its key: rows cannot multiply."""
    pairs = plain.join_pairs(step.on, flow.columns, reference.columns)
    flow = flow.with_tags()
    rows = plain.looked_up(flow.rows, reference, pairs)
    shared = {right for _, right in pairs} if plain.shares_names(step.on) else set()
    added = [name for name in reference.columns if name not in shared]
    new = [F.col(plain.REFERENCE).getField(name).alias(name) for name in added]
    rows = rows.select(*map(col, flow.columns), *new, *flow.carried(), MATCHES)
    keys = [left for left, _ in pairs]
    unread = {**flow.unread, **dict.fromkeys(added, flow.lacks(keys))}
    names = plain.joined_columns(step.on, flow.columns, added)
    flow = replace(flow, rows=rows, columns=names, unread=unread)
    [lookup] = step.references
    looked_up = LookedUp(step_id, lookup, step.max_unmatched)
    if step.unmatched == "keep" or step.max_unmatched is not None:
        flow = count_unmatched(flow, looked_up, tags.IS_LIVE, book)
    else:
        book.looked_up.append(looked_up)
    flow = _unmatched(flow, step, (keys, added), step_id, book)
    if step.fanout == "error":
        return replace(flow, rows=flow.rows.drop(MATCHES))
    return replace(flow, beside=(*flow.beside, MATCHES))


def count_unmatched(flow: Flow, looked_up: LookedUp, which: str, book: Book) -> Flow:
    """Count the rows that are looked up, by a condition in SQL, and those without a match."""
    missed = f"count_if({which} AND {MATCHES} IS NULL) AS count"
    counts = (F.expr(missed), F.expr(f"count_if({which}) AS looked_up"))
    name, step_id = looked_up.lookup.other.input, looked_up.step_id
    rows, observed = observe(flow.rows, f"{book.asset} {step_id} {name}", counts)
    watched = Watched(name, step_id, "a match", flow.level, flow.rows, counts)
    book.looked_up.append(replace(looked_up, watched=watched))
    return replace(flow, rows=rows, seen=(*flow.seen, RowsSeen((observed,), watched)))


def _unmatched(
    flow: Flow,
    step: Join,
    columns: tuple[Sequence[str], Sequence[str]],
    step_id: str,
    book: Book,
) -> Flow:
    """Handle rows without a match. `columns` are the columns looked up by, and the added ones."""
    keys, added = columns
    text = step.on if isinstance(step.on, str) else ", ".join(step.on)
    matched = f"{MATCHES} IS NOT NULL"
    if step.unmatched == "keep":
        return flow
    if step.unmatched == "filter":
        why = f"Records without a match in {step.other.input}"
        return end_unless(flow, matched, book.part(Fate.FILTERED, step_id, why, text, flow.level))
    rule = book.rule(
        Rule(
            error_type=ErrorType.JOIN,
            path=f"{book.asset}.{step_id}",
            expected=f"a row of {step.other.input} with {text}",
            entity=book.asset,
            field=",".join(keys),
            step=step_id,
        )
    )
    fails = f"({tags.IS_LIVE} AND {MATCHES} IS NULL)"
    also = f"({PART} = {ERROR} AND {MATCHES} IS NULL AND {tags.has_all(keys)})"
    charged = tags.charge(rule, keys, book.redaction)
    unread = {**flow.unread, **{n: flow.lacks([n]) | {rule} for n in added}}
    flow = _tagged(flow, tags.part_if(fails), tags.reasons_if(f"{fails} OR {also}", charged))
    return replace(flow, unread=unread, rules=len(book.rules))
