"""A plan as one SQL query, to be executed by another engine than Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import others
from tallyman.domain.definition.step import (
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Union,
)
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.definition.working_step import Aggregate, Append, Delete, Update
from tallyman.engine.expressions.column_names import quoted
from tallyman.engine.expressions.columns import text_of


def plan_sql(plan: Frame) -> str:
    """Write the plan as `WITH each step AS (…) SELECT * FROM the last one`."""
    clauses: list[str] = []
    last = _add(plan, clauses)
    return f"WITH {', '.join(clauses)} SELECT * FROM {last}" if clauses else f"SELECT * FROM {last}"


def _add(frame: Frame, clauses: list[str]) -> str:
    """Add the steps of a plan; return the name of the rows after the last one."""
    before = quoted(frame.input)
    for step in frame.steps():
        read = [_add(other, clauses) for other in others(step)]
        text = _sql(step, before, read)
        before = f"step_{len(clauses)}"
        clauses.append(f"{before} AS ({text})")
    return before


def _sql(step: Step, rows: str, read: list[str]) -> str:
    match step:
        case GroupBy():
            return _groups(step, rows)
        case Join():
            how = "LEFT JOIN" if step.unmatched == "keep" else "JOIN"
            return f"SELECT * FROM {rows} {how} {read[0]} {_on(step.on)}"
        case Union():
            name = " BY NAME" if step.by_name else ""
            return f"SELECT * FROM {rows} UNION ALL{name} SELECT * FROM {read[0]}"
        case Append():
            return f"SELECT * FROM {rows} UNION ALL BY NAME SELECT * FROM {read[0]}"
        case Aggregate():
            return f"SELECT * FROM {rows} UNION ALL BY NAME {_groups(step, rows)}"
        case Update():
            return _updated(step, rows, read)
    return f"SELECT {', '.join(_listed(step))} FROM {rows}{_clauses(step)}"


def _listed(step: Step) -> Iterator[str]:
    match step:
        case Explode():
            function = "explode_outer" if step.outer else "explode"
            yield f"* EXCEPT ({quoted(step.column)})" if step.alias == step.column else "*"
            yield f"{function}({quoted(step.column)}) AS {quoted(step.alias)}"
        case DropDuplicates():
            yield "DISTINCT *" if step.subset is None else f"DISTINCT ON ({_names(step.subset)}) *"
        case _:
            yield from _columns(step)


def _columns(step: Step) -> Iterator[str]:
    """Yield the kept columns, the renamed ones, and the computed ones."""
    gone = (*step.drops(), *step.renames())
    if step.keeps_only is None:
        yield f"* EXCEPT ({_names(gone)})" if gone else "*"
    yield from (f"{quoted(old)} AS {quoted(new)}" for old, new in step.renames().items())
    for each in step.assigns():
        text = text_of(each.operand.value)
        yield text if each.name is None else f"{text} AS {quoted(each.name)}"


def _clauses(step: Step) -> str:
    match step:
        case Filter() | Expect():
            return f" WHERE {text_of(step.predicate)}"
        case Delete():
            gone = "true" if step.where is None else text_of(step.where)
            return f" WHERE NOT coalesce({gone}, false)"
    return ""


def _groups(step: GroupBy | Aggregate, rows: str) -> str:
    made = [f"{text_of(value)} AS {quoted(name)}" for name, value in step.aggregates]
    where = step.where if isinstance(step, Aggregate) else None
    condition = "" if where is None else f" WHERE {text_of(where)}"
    by = f" GROUP BY {_names(step.by)}" if step.by else ""
    listed = ", ".join([*map(quoted, step.by), *made])
    return f"SELECT {listed} FROM {rows}{condition}{by}"


def _updated(step: Update, rows: str, read: list[str]) -> str:
    values = []
    for name, value in step.set:
        text = text_of(value)
        if step.where is not None:
            text = f"CASE WHEN {text_of(step.where)} THEN {text} ELSE {quoted(name)} END"
        values.append(f"{text} AS {quoted(name)}")
    joins = "".join(
        f" LEFT JOIN {other} AS {quoted(each.alias)} {_on(each.on)}"
        for each, other in zip(step.join, read, strict=True)
    )
    # Without the columns of the references.
    kept = f"{rows}.* EXCEPT ({_names(name for name, _ in step.set)})"
    return f"SELECT {kept}, {', '.join(values)} FROM {rows}{joins}"


def _on(on: object) -> str:
    if isinstance(on, (list, tuple)):
        if all(isinstance(each, str) and "=" not in each for each in on):
            return f"USING ({_names(map(str, on))})"
        return f"ON {' AND '.join(map(text_of, on))}"
    text = text_of(on)
    return f"ON {text}" if "=" in text else f"USING ({quoted(text)})"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
