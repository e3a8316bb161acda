"""Definition mistakes, found on schemas alone, before any data is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import numbers
from tallyman.domain.definition.step import Expect, Join, Select, Split
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.pipeline.pipeline import Asset, Source
from tallyman.engine.expressions.clock import EPOCH, reads_clock
from tallyman.engine.expressions.column_names import HIDDEN, is_ours
from tallyman.engine.expressions.columns import col, to_column
from tallyman.engine.plan import check_working, in_place, plain, timed_plan
from tallyman.engine.plan.check_expressions import Place, refusals
from tallyman.engine.spark import small_tables
from tallyman.errors import DefinitionError, Problem, TallymanError, wording
from tallyman.errors.wording import first_line

_PROBE = "_tm_probe"
nearest = partial(wording.nearest, cutoff=0.5)


def source_schema(spark: SparkSession, source: Source) -> StructType:
    """Parse the declared schema; DefinitionError if it does not parse or lacks the key."""
    return parsed_schema(f"source {source.name}", source.schema or "", source.key)


def parsed_schema(where: str, text: str, key: Sequence[str]) -> StructType:
    try:
        schema = StructType().fromDDL(text)
        assert isinstance(schema, StructType)
    except (ParseException, PySparkException) as error:
        reason = f"the schema does not parse: {first_line(error)}"
        raise DefinitionError([Problem(where, reason)]) from None
    return _checked_schema(where, schema, key)


def _checked_schema(where: str, schema: StructType, key: Sequence[str]) -> StructType:
    problems = [
        Problem(where, f"bad key: there is no column {name!r}", nearest(name, schema.names))
        for name in key
        if name not in schema.names
    ]
    lowered = [name.lower() for name in schema.names]
    problems += [
        Problem(where, f"column {name!r} is declared twice")
        for name in sorted({n for n in lowered if lowered.count(n) > 1})
    ]
    problems += [_reserved(where, name) for name in schema.names if is_ours(name)]
    if problems:
        raise DefinitionError(problems)
    return schema


def _reserved(where: str, name: str) -> Problem:
    return Problem(where, f"column {name!r}: names that begin with {HIDDEN!r} are reserved")


def check_asset(
    spark: SparkSession,
    asset: Asset,
    schemas: Mapping[str, StructType],
    plan: Callable[[], Frame],
) -> tuple[Frame | None, StructType, list[Problem]]:
    """Return the plan of an asset, the schema of its result, and every mistake in it."""
    where = f"asset {asset.name}"
    try:
        frame = plan()
    except DefinitionError as error:
        return None, StructType(), list(error.problems)
    except TallymanError as error:
        return None, StructType(), [Problem(where, str(error))]
    checker = _Checker(spark, asset, schemas)
    # Check the plan as a run evaluates it: with a time in place of the clock it must hold too.
    result = checker.check(timed_plan.at(frame, EPOCH)).drop(_PROBE)
    problems = checker.problems + check_working.problems(asset, frame)
    for what, key in (("bad key", asset.key), ("unique_key", asset.unique_key)):
        for name in (name for name in key if name not in result.columns):
            near = nearest(name, result.columns)
            problems.append(Problem(where, f"{what}: the result has no column {name!r}", near))
    names = [name.lower() for name in result.columns]
    for name in sorted({n for n in names if names.count(n) > 1}):
        problems.append(
            Problem(where, f"the result has two columns named {name!r}; drop or rename one")
        )
    if not problems:
        problems += _partition_problems(where, asset, result.schema)
        problems += _approval_problems(spark, where, asset, result.schema)
    return frame, result.schema, problems


def _partition_problems(where: str, asset: Asset, schema: StructType) -> list[Problem]:
    """Check that rows contain their partition; otherwise a partition could not be replaced."""
    declared = asset.partitioned_by
    if declared is None:
        return []
    wanted = "date" if declared.kind == "daily" else "string"
    for field in schema:
        if field.name == declared.column:
            found = field.dataType.simpleString()
            if found == wanted:
                return []
            text = f"partition column {field.name!r} is {found}; {declared.kind} needs {wanted}"
            return [Problem(where, text)]
    near = nearest(declared.column, schema.names)
    return [Problem(where, f"the result has no partition column {declared.column!r}", near)]


def _approval_problems(
    spark: SparkSession, where: str, asset: Asset, schema: StructType
) -> list[Problem]:
    if asset.approval is None or asset.approval.when is None:
        return []
    empty = small_tables.empty(spark, schema)
    place = Place(schema.names, lambda asked: empty.agg(asked), empty, is_aggregate=True)
    if refused := refusals(asset.approval.when, place):
        return [Problem(where, f"approval, when: {reason}") for reason in refused]
    try:
        rows = empty.agg(F.expr(asset.approval.when).alias("asks"))
        kind = rows.schema["asks"].dataType.simpleString()
    except PySparkException as error:
        return [Problem(where, f"approval, when: {first_line(error)}")]
    if kind != "boolean":
        return [Problem(where, f"approval, when: gives {kind}, not true or false")]
    return []


class _Checker:
    def __init__(
        self, spark: SparkSession, asset: Asset, schemas: Mapping[str, StructType]
    ) -> None:
        self.spark, self.asset, self.schemas = spark, asset, schemas
        self.problems: list[Problem] = []
        self.names: set[str] = set()

    def check(self, frame: Frame) -> DataFrame:
        if frame.step is None or frame.parent is None:
            empty = small_tables.empty(self.spark, self.schemas[frame.input])
            return empty.withColumn(_PROBE, F.lit(1))
        rows = self.check(frame.parent)
        where = self._place(frame)
        before = len(self.problems)
        self._check_step(frame, rows, where)
        if len(self.problems) > before:
            return _assume(frame.step, rows)
        try:
            return _analyzed(self._applied(frame.step, rows, where))
        except TallymanError as error:
            self.problems.append(Problem(where, str(error)))
        except (AnalysisException, ParseException) as error:
            self.problems.append(_problem(where, error, _visible(rows)))
        return _assume(frame.step, rows)

    def _place(self, frame: Frame) -> str:
        step = frame.step
        assert step is not None
        name = step.name or f"{numbers(frame)[frame]}_{step.kind}"
        return f"asset {self.asset.name}, step {name}"

    def _applied(self, step: Step, rows: DataFrame, where: str) -> DataFrame:
        if isinstance(step, Join):
            return self._joined(step, rows, where)
        if isinstance(step, Select):
            return rows.select(*plain.selected(step, rows, _visible(rows)), _PROBE)
        if not (step.in_place or step.groups):
            # A row-local expression can be next to another column; an aggregate cannot.
            return plain.apply(step, rows, self.check)
        probed = rows.drop(_PROBE)
        check_working.check_conditions(step, probed)
        done = in_place.apply(step, probed, lambda f: self.check(f).drop(_PROBE))
        return done.withColumn(_PROBE, F.lit(1))

    def _joined(self, step: Join, rows: DataFrame, where: str) -> DataFrame:
        other = self.check(step.other).drop(_PROBE)
        known = len(self.problems)
        self._check_join(step, rows, other, where)
        if len(self.problems) == known:
            return plain.joined(step, rows, other)
        added = [f for f in other.schema if f.name not in rows.columns]
        none = {f.name: F.lit(None).cast(f.dataType) for f in added}
        return rows.withColumns(none) if none else rows  # Spark Connect refuses none at all

    def _check_step(self, frame: Frame, rows: DataFrame, where: str) -> None:
        step, columns = frame.step, _visible(rows)
        assert step is not None
        if step.name:
            if step.name in self.names:
                self._add(where, f"two steps are named {step.name!r}")
            self.names.add(step.name)
        for place, expression in _expressions(step, rows, columns):
            for reason in refusals(expression, place):
                self._add(where, reason)
        for reason in _split_mistakes(step, rows) if isinstance(step, Split) else ():
            self._add(where, reason)
        for name in step.made_names():
            if is_ours(name):
                self.problems.append(_reserved(where, name))
        for name in step.needs():
            if name not in columns:
                self._add(where, f"unknown column {name!r}", nearest(name, columns))
        if step.combines and step.inflow is not None:
            for side in (frame.parent, step.inflow):
                if side and any(s.groups or s.multiplies for s in side.steps()):
                    self._add(
                        where,
                        "union of rows that were grouped or multiplied before; make that part "
                        "a separate asset and unite its output",
                    )
        self.problems += check_working.step_problems(step, columns, where)
        if isinstance(step, Join) and any(isinstance(s, Expect) for s in step.other.steps()):
            self._add(
                where,
                "expect on the right side of a join: a reference has no ledger; "
                "make it a separate asset and join that",
            )

    def _check_join(self, step: Join, rows: DataFrame, other: DataFrame, where: str) -> None:
        left, right = rows.schema, other.schema
        pairs = plain.join_pairs(step.on, rows.columns, other.columns)
        for mine, theirs in pairs:
            if mine not in left.names:
                self._add(where, f"unknown column {mine!r}", nearest(mine, left.names))
            elif theirs not in right.names:
                self._add(
                    where,
                    f"unknown column {theirs!r} of the reference",
                    nearest(theirs, right.names),
                )
            elif left[mine].dataType != right[theirs].dataType:
                kinds = (left[mine].dataType.simpleString(), right[theirs].dataType.simpleString())
                self._add(
                    where, f"{mine!r} is {kinds[0]} but {theirs!r} is {kinds[1]}; cast one first"
                )
        shared = {r for _, r in pairs} if plain.shares_names(step.on) else set()
        clash = (set(_visible(rows)) & set(right.names)) - shared
        for name in sorted(clash):
            self._add(where, f"both sides have a column {name!r}; drop or rename one")

    def _add(self, where: str, message: str, near: str | None = None) -> None:
        self.problems.append(Problem(where, message, near))


def _analyzed(rows: DataFrame) -> DataFrame:
    """Let Spark analyze the rows now. Spark Connect does so only when it is asked, and takes the
    columns of a filter from the rows before it."""
    if type(rows).__module__.startswith("pyspark.sql.connect"):
        _ = rows.select("*").schema
    return rows


def _visible(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name != _PROBE]


def _expressions(
    step: Step, rows: DataFrame, columns: Sequence[str]
) -> Iterator[tuple[Place, str]]:
    """Yield each expression of a step, with its place."""
    plainly = Place(columns, lambda one: rows.select(one), rows)
    by = [name for name in step.column_names() if name in columns]
    grouped = Place(
        columns, lambda one: rows.groupBy(*map(col, by)).agg(one), rows, is_aggregate=True
    )
    for operand in step.operands():
        if not operand.is_name:
            yield (grouped if operand.way is Way.AGGREGATION else plainly), operand.value


def _assume(step: Step, rows: DataFrame) -> DataFrame:
    """Assume the columns of a step with a mistake, so that one mistake is reported once."""
    names = step.made_names()
    if step.groups:
        kept = [name for name in step.keeps_only or () if name in rows.columns]
        rows = rows.select(*map(col, kept), _PROBE)
    return rows.withColumns({name: F.lit(None).cast("string") for name in names}) if names else rows


def _problem(where: str, error: PySparkException, columns: Sequence[str]) -> Problem:
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "").replace("`", "")
        return Problem(where, f"unknown column {name!r}", nearest(name, columns))
    if condition.startswith(("MISSING_GROUP_BY", "GROUP_BY")):
        return Problem(where, "an aggregate outside groupBy; use groupBy(...).agg(...)")
    return Problem(where, first_line(error).split(" SQLSTATE")[0])


def _split_mistakes(step: Split, rows: DataFrame) -> Iterator[str]:
    """Check each condition by itself: put together, one could hide the mistake of another."""
    for name, condition in step.outputs:
        if reads_clock(str(condition)):
            yield f"{name}: it reads the clock, and a later run would put rows elsewhere"
            continue
        try:
            kind = rows.select(to_column(condition, rows.columns).alias("fits")).schema["fits"]
        except PySparkException as error:
            yield f"{name}: {first_line(error)}"
            continue
        if (found := kind.dataType.simpleString()) != "boolean":
            yield f"{name}: {condition!r} gives {found}, not true or false"
