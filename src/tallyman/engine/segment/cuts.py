"""Cuts, where rows are combined or multiplied: one segment is written, the next begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType
from pyspark.sql.window import Window

from tallyman.domain.account.fate import Fate
from tallyman.domain.definition.step import DropDuplicates, Explode, GroupBy, Join
from tallyman.domain.definition.working_step import Aggregate
from tallyman.engine.expressions.column_names import (
    KEY,
    LIVE,
    PART,
    PLACE,
    REJECTIONS,
    SOURCES,
    literal,
    quoted,
)
from tallyman.engine.expressions.columns import col, mentioned, to_sql
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.plan import plain
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.group_key import GROUP_KEY, SOURCE_KEY, SOURCE_PLACE, WHOLE, group_text
from tallyman.engine.segment.segment import Flow, end_unless
from tallyman.engine.segment.stage import (
    SegmentFolder,
    Stage,
    user_columns,
    write,
    write_keys,
    write_merged,
)
from tallyman.engine.segment.tags import IS_LIVE
from tallyman.engine.spark import digest

VALUE = "value_"


@dataclass(frozen=True, slots=True)
class Opened:
    """A cut that made new rows of records: groups or children."""

    stage: Stage
    step_id: str
    fate: Fate
    unit: str
    description: str
    children: DataFrame | None = None
    """Child and parent keys, for multiplied rows."""
    makes: Column | None = None
    """The number of children of a live row of the stage, computed from the row itself."""
    groups: DataFrame | None = None
    """Group keys with count and digest, if the keys themselves are not stored."""
    links: DataFrame | None = None
    """Group keys and the keys of the rows in them, if these rows stayed, or if the segment wrote
    redacted values.
    """
    whole: bool = False
    """True for the one group of all rows, which exists even without rows."""
    matched: DataFrame | None = None
    """Group and key of each row in a group, if these rows stayed."""
    by: tuple[str, ...] | None = None
    """The columns of the stage that identify a group, if `groups` are its live rows as written."""

    @property
    def consumes(self) -> bool:
        """True if the records ended here; a working set adds rows and keeps the others."""
        return self.unit != "row"

    @property
    def kept_as_written(self) -> bool:
        """True if the live rows of the stage are the evidence."""
        return self.unit == "group" and self.groups is None and self.links is None

    @property
    def readable_here(self) -> bool:
        """True if this process can read the groups: live rows of the stage, as written."""
        return self.by is not None and self.stage.readable_here(self.by)

    def rows(self) -> DataFrame:
        """Read group and source key of each row in a group, as evidence shows them."""
        return self.stage.live() if self.links is None else self.links


def checkpoint(flow: Flow, folder: SegmentFolder) -> tuple[Stage, Flow]:
    """Write the segment and continue with its live rows, including their keys."""
    carried = [F.col(name) for name in (KEY, REJECTIONS, *flow.place(), *flow.beside)]
    columns = [*user_columns(flow.with_tags()), *carried]
    stage = write(flow, folder, columns)
    if sources := flow.sources():
        stage = replace(stage, sources=tuple(sources))
    beside = tuple(name for name in flow.beside if name != plain.MATCHES)
    rows = stage.live().select(*map(col, flow.columns), KEY, *flow.place(), *beside)
    known = {name: stage.schema[name].dataType for name in flow.columns}
    return stage, replace(flow, rows=rows, tagged=False, beside=beside, seen=(), known=known)


def group_of(
    step: GroupBy | Aggregate, kinds: Mapping[str, DataType], redaction: Redaction | None = None
) -> str:
    """Write the columns that identify a group, as one struct; with `redaction`, hashes in place of
    redacted ones. -0.0 is in the group of 0.0, so it must read like it.
    """
    zero: dict[DataType, str] = {FloatType(): "0.0F", DoubleType(): "0.0D"}
    fields = {
        n: f"{quoted(n)} + {zero[kinds[n]]}" if kinds[n] in zero else quoted(n) for n in step.by
    }
    return _struct(fields or {WHOLE: "true"}, redaction)


def group_keys(flow: Flow, step: GroupBy, folder: SegmentFolder) -> tuple[Stage, DataFrame]:
    """Write every live row with its group and what the aggregates need: the evidence itself. A row
    that is itself a group brings count and digest of the rows it was made of.
    """
    needed = mentioned([e for _, e in step.aggregates], flow.columns)
    values = [flow.live_column(n, VALUE + n) for n in needed if n not in step.by]
    group = flow.live(F.expr(group_of(step, flow.types(step.by)))).alias(GROUP_KEY)
    behind = [F.struct(*kept).alias(SOURCES)] if (kept := flow.sources()) else []
    columns = [group, *source(placed=flow.placed), *behind, *values]
    stage = write_keys(flow, folder, columns, key=SOURCE_KEY, place=SOURCE_PLACE)
    if behind:
        stage = stage.with_sources(SOURCES)
    return stage, aggregate_keys(stage.live(), step, needed)


def source(*, placed: bool) -> list[Column]:
    """Name the record of a row, for evidence."""
    place = [F.col(PLACE).alias(SOURCE_PLACE)] if placed else []
    return [F.col(KEY).alias(SOURCE_KEY), *place]


def hidden_links(stage: Stage, step: GroupBy, redaction: Redaction) -> DataFrame | None:
    """Read the evidence without redacted values; None if the segment wrote none."""
    names = stage.schema.names
    values = [name for name in names if name.startswith(VALUE)]
    shown = [name for name in values if not redaction.covers(name.removeprefix(VALUE))]
    if shown == values and not redaction.covers_any(step.by):
        return None
    named = [name for name in (SOURCE_KEY, SOURCE_PLACE, SOURCES) if name in names]
    group = f"{_hidden_group(step, redaction)} AS {GROUP_KEY}"
    return stage.live().selectExpr(group, *named, *map(quoted, shown))


def hidden_groups(groups: DataFrame, step: GroupBy, redaction: Redaction) -> DataFrame:
    """Read groups with their digests, redacted columns as hashes."""
    if not redaction.covers_any(step.by):
        return groups
    return groups.withColumn(GROUP_KEY, F.expr(_hidden_group(step, redaction)))


def _hidden_group(step: GroupBy, redaction: Redaction) -> str:
    """Write the group of a row of evidence, redacted columns as hashes."""
    if not step.by:
        return GROUP_KEY
    return _struct({name: f"{GROUP_KEY}.{quoted(name)}" for name in step.by}, redaction)


def _struct(fields: Mapping[str, str], redaction: Redaction | None) -> str:
    shown = {
        name: redaction.shown(name, value) if redaction and redaction.covers(name) else value
        for name, value in fields.items()
    }
    listed = ", ".join(f"{literal(name)}, {value}" for name, value in shown.items())
    return f"named_struct({listed})"


def aggregate_keys(evidence: DataFrame, step: GroupBy, needed: Sequence[str]) -> DataFrame:
    """Aggregate what was written. Each group gets the digest of its keys, so that a row that was
    read twice or not at all is detected.
    """
    groups = [f"{GROUP_KEY}.{quoted(n)} AS {quoted(n)}" for n in step.by]
    values = [f"{quoted(VALUE + n)} AS {quoted(n)}" for n in needed if n not in step.by]
    rows = evidence.selectExpr(*groups, *values, f"{SOURCE_KEY} AS {KEY}")
    names = [*step.by, *(name for name in needed if name not in step.by)]
    return plain.aggregated(step, rows, names, list(map(F.expr, digest.lanes(KEY))))


def group_digests(
    flow: Flow, step: GroupBy, folder: SegmentFolder
) -> tuple[Stage, DataFrame, DataFrame]:
    """Do everything in one aggregation: live rows are grouped, ended rows stay separate.

    Returns the stage, the aggregate, and each group's count and key digest.
    """
    flow = flow.with_tags()
    needed = mentioned([e for _, e in step.aggregates], flow.columns)
    names = list(dict.fromkeys([*step.by, *needed]))
    guarded = [flow.live_sql(name) for name in names]
    own = {"_tm_own": KEY, **({PLACE: PLACE} if flow.placed else {})}
    ended = [f"CASE WHEN {PART} <> {LIVE} THEN {value} END AS {n}" for n, value in own.items()]
    part = f"CAST({PART} AS INT) AS {PART}"
    rows = flow.rows.selectExpr(*guarded, part, KEY, *ended, REJECTIONS)
    # An aggregate that raises on a group without values must not be evaluated on ended rows.
    aggregates = [
        f"CASE WHEN {IS_LIVE} THEN {to_sql(e, names)} END AS {quoted(n)}"
        for n, e in step.aggregates
    ]
    groups = [PART, *own, REJECTIONS, *map(quoted, step.by)]
    merged = rows.groupBy(*groups).agg(*map(F.expr, [*aggregates, *digest.lanes(KEY)]))
    merged = merged.withColumnRenamed("_tm_own", KEY)
    stage = write_merged(flow, merged, folder)
    found = stage.live()
    output = found.select(*map(quoted, [*step.by, *(n for n, _ in step.aggregates)]))
    kinds = {f.name: f.dataType for f in stage.schema}
    key = f"{group_of(step, kinds)} AS {GROUP_KEY}"
    return stage, output, found.selectExpr(key, *digest.NAMES)


def group_flow(
    output: DataFrame, step: GroupBy, level: int, redaction: Redaction, *, digests: bool
) -> Flow:
    """Make groups rows of their own, keyed by their group columns. `digests` if each carries count
    and digest of its rows.
    """
    key = F.expr(group_text(step.by, [redaction.shown(n, quoted(n)) for n in step.by]))
    flow = Flow(
        output.withColumn(KEY, key),
        (*step.by, *(name for name, _ in step.aggregates)),
        None,
        level=level,
        after_group=True,
        group_columns=step.by,
        beside=digest.NAMES if digests else (),
    )
    # A key with a redacted column cannot be read from the columns: rows carry the key itself.
    return flow.with_tags() if redaction.covers_any(step.by) else flow


def childless_filtered(flow: Flow, step: Explode, step_id: str, book: Book) -> Flow:
    """End parents without elements, with a reason, because they leave no child."""
    flow = flow.with_tags()
    if step.outer:
        return flow
    predicate = f"size({step.column}) > 0"
    ended = book.part(
        Fate.FILTERED,
        f"{step_id}.empty",
        f"Records with no element in {step.column}",
        predicate,
        flow.level,
    )
    return end_unless(flow, f"coalesce(size({quoted(step.column)}) > 0, false)", ended)


def exploded(flow: Flow, step: Explode, parents: Flow) -> tuple[Flow, DataFrame]:
    function = F.posexplode_outer if step.outer else F.posexplode
    names = [*parents.columns, *([] if step.alias in parents.columns else [step.alias])]
    rows = parents.rows.select("*", function(col(step.column)).alias("_tm_number", "_tm_element"))
    number = F.coalesce(F.col("_tm_number"), F.lit(0)).cast("string")
    rows = rows.withColumn("_tm_child", F.concat(F.col(KEY), F.lit("/"), number))
    chosen = [F.col("_tm_element").alias(n) if n == step.alias else col(n) for n in names]
    return _children(flow, rows, chosen, names)


def expanded(flow: Flow, step: Join, parents: Flow, reference: DataFrame) -> tuple[Flow, DataFrame]:
    """Keep all matches; children are numbered by the content of their match."""
    pairs = plain.join_pairs(step.on, parents.columns, reference.columns)
    shared = {right for _, right in pairs} if plain.shares_names(step.on) else set()
    added = [name for name in reference.columns if name not in shared]
    renamed = reference.select(
        *plain.compared(right for _, right in pairs),
        *(col(name).alias(name) for name in added),
    )
    how = "left" if step.unmatched == "keep" else "inner"
    rows = parents.rows.join(renamed, plain.meets(left for left, _ in pairs), how)
    order = [F.to_json(F.struct(*map(col, added)))] if added else [F.lit(0)]
    number = F.row_number().over(Window.partitionBy(KEY, *parents.place()).orderBy(*order)) - 1
    rows = rows.withColumn("_tm_child", F.concat(F.col(KEY), F.lit("/"), number.cast("string")))
    names = plain.joined_columns(step.on, parents.columns, added)
    return _children(flow, rows, [col(name) for name in names], names)


def _children(
    flow: Flow, rows: DataFrame, chosen: Sequence[Column], names: Sequence[str]
) -> tuple[Flow, DataFrame]:
    """Make children; a child has the place of its record."""
    place = [F.col(PLACE).alias(SOURCE_PLACE)] if flow.placed else []
    named = [F.col("_tm_child").alias("child_key"), F.col(KEY).alias("parent_key")]
    links = rows.select(*named, *place)
    children = rows.select(*chosen, F.col("_tm_child").alias(KEY), *flow.place())
    made = Flow(children, tuple(names), None, level=flow.level + 1, placed=flow.placed)
    return made, links


def first_of_each(flow: Flow, step: DropDuplicates, step_id: str, book: Book) -> Flow:
    """Keep the row with the smallest key, so that the choice is the same in every run."""
    subset = list(step.subset) if step.subset is not None else list(flow.columns)
    window = Window.partitionBy(*map(col, subset)).orderBy(KEY, *flow.place())
    rows = flow.rows.withColumn("_tm_rank", F.row_number().over(window))
    predicate = f"first of its ({', '.join(subset)})"
    ended = book.part(Fate.FILTERED, step_id, "Records that repeat another", predicate, flow.level)
    ranked = replace(flow, rows=rows).with_tags()
    kept = end_unless(ranked, "_tm_rank = 1", ended)
    return replace(kept, rows=kept.rows.drop("_tm_rank"))
