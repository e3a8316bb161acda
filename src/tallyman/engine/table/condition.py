"""Conditions on the rows of a table: written in Spark SQL, evaluated by DuckDB.

Only expressions with the same meaning in both are allowed. A condition selects rows to change or
delete: an operator that rounds, orders or matches differently would select other rows. (One
exception is known and kept because it is useful: upper('ß') is SS in Spark and ẞ in DuckDB.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from tallyman.domain.version.mutation import Where
from tallyman.domain.version.table import Table
from tallyman.engine.files.duck import duck_type, quoted
from tallyman.engine.table.values import typed
from tallyman.errors import InvalidMutation, Problem

ALLOWED = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.Escape,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Mod,
    exp.Neg,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.Lower,
    exp.Upper,
    exp.Length,
    exp.Abs,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Column,
    exp.Identifier,
)
_WORDS = (
    "AND, OR, NOT, comparisons, <=>, IS NULL, IN (values), BETWEEN, LIKE, +, -, *, %, CASE, if, "
    "coalesce, lower, upper, length, abs, DATE '…' and TIMESTAMP '…'"
)
_MOMENTS = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPNTZ)
_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Anonymous: "function",
    exp.Subquery: "subquery",
    exp.Select: "subquery",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in DuckDB's SQL, with $1, $2, … for the values."""

    sql: str
    values: tuple[object, ...]


def condition(where: Where, table: Table, path: str) -> Condition:
    """Translate a condition; InvalidMutation names what is not understood at `path`."""
    if isinstance(where, Mapping):
        return _equalities(where, table, path)
    tree = _parsed(where, path)
    if problems := [Problem(path, message, near) for message, near in _mistakes(tree, table)]:
        raise InvalidMutation(problems)
    values: list[object] = []
    tree = _ready(exp.Paren(this=tree), table, values)
    return Condition(tree.sql(dialect="duckdb", comments=False), tuple(values))


def _equalities(where: Mapping[str, object], table: Table, path: str) -> Condition:
    problems: list[Problem] = []
    conditions: list[str] = []
    values: list[object] = []
    for name, value in where.items():
        if name not in table.names:
            problems.append(
                Problem(f"{path}.{name}", f"{table.name} has no such column", table.nearest(name))
            )
            continue
        kind = table.column(name).type
        try:
            fitting = typed(kind, value)
        except ValueError as error:
            problems.append(Problem(f"{path}.{name}", f"{value!r} as {kind}: {error}"))
            continue
        if value is None:
            conditions.append(f"{quoted(name)} IS NULL")
        else:
            values.append(fitting)
            conditions.append(f"{quoted(name)} = CAST(${len(values)} AS {duck_type(kind)})")
    if problems:
        raise InvalidMutation(problems)
    return Condition("(" + " AND ".join(conditions) + ")", tuple(values))


def _parsed(where: str, path: str) -> exp.Expression:
    try:
        trees = sqlglot.parse(where, read="spark")
    except SqlglotError as error:
        reason = error.errors[0]["description"] if isinstance(error, ParseError) else str(error)
        raise InvalidMutation([Problem(path, f"this is not a condition: {reason}")]) from None
    except RecursionError:
        raise InvalidMutation([Problem(path, "the condition is nested too deeply")]) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expression):
        raise InvalidMutation([Problem(path, "give exactly one condition, without semicolons")])
    return trees[0]


def _mistakes(tree: exp.Expression, table: Table) -> list[tuple[str, str | None]]:
    found: dict[str, str | None] = {}
    known = {name.lower() for name in table.names}
    for node in tree.walk(
        bfs=False, prune=lambda node: _is_moment(node) or not isinstance(node, ALLOWED)
    ):
        if isinstance(node, exp.Column):
            if len(node.parts) > 1:
                found[f"{node.sql('spark')}: name columns without their table"] = None
            elif node.name.lower() not in known:
                message = f"{table.name} has no column {node.name!r}"
                found[message] = table.nearest(node.name)
        elif isinstance(node, exp.Concat):
            # Spark 4 reads 'it''s' as one text with a quote in it, sqlglot as two texts.
            found[r"texts cannot be concatenated here; write a quote in a text as \'"] = None
        elif not isinstance(node, ALLOWED) and not _is_moment(node):
            what = _NAMES.get(type(node), "")
            text = f"{node.sql('spark', comments=False):.60}"
            found[f"{what} {text} is not supported; a condition can use {_WORDS}".lstrip()] = None
        elif isinstance(node, exp.In) and len(node.args.get("expressions") or ()) == 0:
            found["IN takes a list of values"] = None
    return list(found.items())


def _is_moment(node: exp.Expr) -> bool:
    """True for DATE '2024-01-31' and the like: the only casts with one meaning in both engines."""
    is_cast = isinstance(node, exp.Cast) and node.to.this in _MOMENTS
    return is_cast and isinstance(node.this, exp.Literal) and node.this.is_string


def _ready(tree: exp.Expression, table: Table, values: list[object]) -> exp.Expression:
    """Replace values by parameters, spell names as declared, use Spark's escape character in
    LIKE.
    """
    names = {name.lower(): name for name in table.names}
    for column in list(tree.find_all(exp.Column)):
        column.replace(exp.column(exp.to_identifier(names[column.name.lower()], quoted=True)))
    for like in list(tree.find_all(exp.Like)):
        if not isinstance(like.parent, exp.Escape):
            like.replace(exp.Escape(this=like.copy(), expression=exp.Literal.string("\\")))
    for literal in list(tree.find_all(exp.Literal)):
        values.append(_value(literal))
        literal.replace(exp.Parameter(this=exp.Literal.number(len(values))))
    return tree


def _value(literal: exp.Literal) -> object:
    text = str(literal.this)
    if literal.is_string:
        return text
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)
