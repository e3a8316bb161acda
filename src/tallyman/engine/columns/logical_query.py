"""A plan as one SQL query for people to read, with one part for each step. Never executed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain, others, step_ids
from tallyman.domain.definition.step import (
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Union,
    Warn,
)
from tallyman.domain.definition.step_facts import On, Step
from tallyman.domain.definition.working_step import Aggregate, Append, Delete, Output, Update
from tallyman.engine.expressions.column_names import quoted
from tallyman.engine.plan.plain import shares_names

INDENT = "\n  "


def logical_query(plan: Frame) -> str:
    """Write the plan as `WITH step AS (…), … SELECT * FROM the last one`."""
    query = _Query(step_ids(plan))
    last = query.add(plan)
    if not query.clauses:
        return f"SELECT * FROM {last}"
    clauses = ",\n".join(f"{name} AS ({INDENT}{text}\n)" for name, text in query.clauses.items())
    return f"WITH {clauses}\nSELECT * FROM {last}"


def step_queries(plan: Frame) -> dict[str, str]:
    """Map each step's id to its part of the query, those of the inputs that flow in included."""
    ids = step_ids(plan)
    query = _Query(ids)
    query.add(plan)
    return {
        name: query.clauses.get(quoted(name), f"SELECT * FROM {quoted(name)}")
        for name in ids.values()
    }


@dataclass(slots=True)
class _Query:
    ids: dict[Frame, str]
    clauses: dict[str, str] = field(default_factory=dict)

    def add(self, frame: Frame, prefix: str = "") -> str:
        """Add the steps of a plan; return the name of the rows after the last one."""
        before = quoted(frame.input)
        for number, node in enumerate(chain(frame), 1):
            step = node.step
            assert step is not None
            own = self.ids.get(node, f"{prefix}{number}_{step.kind}")
            read = [self.add(other, f"{own}.") for other in others(step)]
            before = self._clause(own, _sql(step, before, read))
        return before

    def _clause(self, name: str, text: str) -> str:
        unique, again = quoted(name), 2
        while unique in self.clauses and self.clauses[unique] != text:
            unique, again = quoted(f"{name}_{again}"), again + 1
        self.clauses[unique] = text
        return unique


def _sql(step: Step, rows: str, read: list[str]) -> str:
    match step:
        case GroupBy():
            return _groups(step, rows)
        case Join():
            how = "LEFT JOIN" if step.unmatched == "keep" else "JOIN"
            unmatched = {"error": "otherwise rejected", "filter": "otherwise filtered"}
            note = unmatched.get(step.unmatched)
            text = f"SELECT *{INDENT}FROM {rows}{INDENT}{how} {read[0]} {_on(step.on)}"
            return f"{text}  -- {note}" if note else text
        case Union():
            name = " BY NAME" if step.by_name else ""
            return f"SELECT * FROM {rows}{INDENT}UNION ALL{name} SELECT * FROM {read[0]}"
        case Append():
            return f"SELECT * FROM {rows}{INDENT}UNION ALL BY NAME SELECT * FROM {read[0]}"
        case Aggregate():
            return f"SELECT * FROM {rows}{INDENT}UNION ALL BY NAME{INDENT}{_groups(step, rows)}"
        case Update():
            return _updated(step, rows, read)
    return f"SELECT {', '.join(_listed(step))}{INDENT}FROM {rows}{_clauses(step)}"


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
        text = each.operand.value
        yield text if each.name is None else f"{text} AS {quoted(each.name)}"


def _clauses(step: Step) -> str:
    match step:
        case Filter():
            return f"{INDENT}WHERE {step.predicate}"
        case Expect():
            return f"{INDENT}WHERE {step.predicate}  -- {step.rule}: otherwise rejected"
        case Warn():
            return f"  -- {step.rule}: {step.predicate}, otherwise a warning"
        case Delete():
            gone = "true" if step.where is None else step.where
            return f"{INDENT}WHERE NOT coalesce({gone}, false)"
        case Output():
            return f"  -- written to {step.path}"
    return ""


def _groups(step: GroupBy | Aggregate, rows: str) -> str:
    made = [f"{value} AS {quoted(name)}" for name, value in step.aggregates]
    where = step.where if isinstance(step, Aggregate) else None
    condition = "" if where is None else f"{INDENT}WHERE {where}"
    by = f"{INDENT}GROUP BY {_names(step.by)}" if step.by else ""
    listed = ", ".join([*map(quoted, step.by), *made])
    return f"SELECT {listed}{INDENT}FROM {rows}{condition}{by}"


def _updated(step: Update, rows: str, read: list[str]) -> str:
    values = []
    for name, value in step.set:
        text = value
        if step.where is not None:
            text = f"CASE WHEN {step.where} THEN {text} ELSE {quoted(name)} END"
        values.append(f"{text} AS {quoted(name)}")
    joins = "".join(
        f"{INDENT}LEFT JOIN {other} AS {quoted(each.alias)} {_on(each.on)}"
        for each, other in zip(step.join, read, strict=True)
    )
    # Without the columns of the references.
    kept = f"{rows}.* EXCEPT ({_names(name for name, _ in step.set)})"
    return f"SELECT {kept}, {', '.join(values)}{INDENT}FROM {rows}{joins}"


def _on(on: On) -> str:
    each = [on] if isinstance(on, str) else on
    return f"USING ({_names(each)})" if shares_names(on) else f"ON {' AND '.join(each)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
