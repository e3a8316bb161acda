"""The columns that an expression reads, and in which way: possibly too many, never too few. And the
name that it gives to a selected column.

SQL text is parsed. Of SQL that cannot be parsed, every column that the text may mean counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.expression import bare_name
from tallyman.engine.expressions.columns import mentioned
from tallyman.engine.plan.in_place import spelled

ALL = "*"
_NAME = re.compile(r"\w+|`(?:[^`]|``)+`")
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a column of the rows, or of the reference named `alias`."""

    column: str
    way: Way
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """The possible meanings of the words of an expression."""

    columns: Sequence[str]
    references: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The columns of each reference, by its alias."""
    complete: bool = True
    """False if rows have columns with names that are not known here."""

    def everything(self, way: Way) -> Iterator[Use]:
        yield from (Use(name, way) for name in self.columns)
        for alias in self.references:
            yield from self.reference(alias, way)

    def reference(self, alias: str, way: Way) -> Iterator[Use]:
        yield from (Use(name, way, alias) for name in self.references[alias])

    def resolve(self, path: Path, way: Way) -> Iterator[Use]:
        """Resolve `column`, `column.field`, `alias.column` or `*`."""
        if path == (ALL,):
            yield from (Use(name, way) for name in self.columns)
            return
        inner = way if len(path) == 1 else way.then(Way.TRANSFORMATION)
        alias = spelled(path[0], list(self.references))
        column = spelled(path[0], self.columns)
        if column is not None:
            yield Use(column, inner)
        elif alias is not None:
            of_it = spelled(path[1], self.references[alias]) if len(path) > 1 else None
            if of_it is None:
                yield from self.reference(alias, way.then(Way.TRANSFORMATION))
            else:
                yield Use(of_it, way if len(path) == 2 else inner, alias)
        elif not self.complete:
            yield from self.everything(way.then(Way.TRANSFORMATION))


def uses(expression: str, names: Names) -> set[Use]:
    if expression in names.columns:
        return {Use(expression, Way.IDENTITY)}
    tree = parsed(expression)
    if tree is None:
        return set(_mentioned(expression, names))
    found = {use for path, way in _visit(tree, Way.IDENTITY) for use in names.resolve(path, way)}
    return found | set(_overlooked(expression, tree, names, found))


@lru_cache(maxsize=128)
def parsed(expression: str) -> exp.Expression | None:
    """Parse and cache, for every partition of an asset has the same expressions; None for SQL that
    is not understood."""
    try:
        # Without SELECT, an expression that begins with a keyword would be parsed as a statement.
        select = sqlglot.parse_one(f"SELECT {expression}", dialect="spark")
    except (SqlglotError, RecursionError):
        return None
    listed = select.expressions
    whole = isinstance(select, exp.Select) and len(listed) == 1
    if not whole or any(v for k, v in select.args.items() if k not in ("kind", "expressions")):
        return None
    return None if listed[0].find(exp.Query) else listed[0]


def selected_as(expression: str, columns: Sequence[str]) -> tuple[str, bool]:
    """Return the name of a selected column, and whether it is certain: Spark makes one up for an
    unnamed expression."""
    own = bare_name(expression)
    if spelled(own, columns) is not None:
        return own, True
    tree = parsed(expression)
    match tree:
        case exp.Alias():
            return tree.alias, True
        case exp.Column() if not tree.find(exp.Star):
            return tree.name, True
    return expression.strip(), False


def _visit(node: exp.Expression, way: Way) -> Iterator[tuple[Path, Way]]:
    deeper = way.then(Way.AGGREGATION if isinstance(node, exp.AggFunc) else Way.TRANSFORMATION)
    match node:
        case exp.Column():
            yield (
                tuple(piece.name if not piece.find(exp.Star) else ALL for piece in node.parts),
                way,
            )
        case exp.Star():
            yield (ALL,), way
        case exp.Alias() | exp.Paren():
            yield from _visit(node.this, way)
        case exp.Count() if isinstance(node.this, exp.Star):
            return
        case _:
            for child in node.iter_expressions():
                for kind in _ways(node, child, deeper):
                    yield from _visit(child, kind)


def _ways(node: exp.Expression, child: exp.Expression, deeper: Way) -> tuple[Way, ...]:
    """Classify how a part of an expression contributes to its value; it can be in two ways."""
    place = child.arg_key
    match node:
        case exp.Window():
            return (deeper if place == "this" else Way.WINDOW,)
        case exp.If() | exp.Nvl2() | exp.Case() if place == "this":
            return (Way.CONDITIONAL,)
        case exp.Filter() if place == "expression":
            return (Way.CONDITIONAL,)
        case exp.Nullif():
            return (deeper, Way.CONDITIONAL) if place == "this" else (Way.CONDITIONAL,)
        case exp.Coalesce() if child is not (node.expressions or [node.this])[-1]:
            return (deeper, Way.CONDITIONAL)
    return (deeper,)


def _mentioned(text: str, names: Names) -> Iterator[Use]:
    way = Way.TRANSFORMATION
    if not names.complete:
        yield from names.everything(way)
        return
    yield from (Use(name, way) for name in mentioned([text], names.columns))
    for alias in mentioned([text], list(names.references)):
        listed = mentioned([text], names.references[alias]) or names.references[alias]
        yield from (Use(name, way, alias) for name in listed)


def _overlooked(text: str, tree: exp.Expression, names: Names, found: set[Use]) -> Iterator[Use]:
    """Yield columns that the parser took for something else: Spark allows one named
    `current_date`.
    """
    seen = {use.column for use in found if use.alias is None} | {use.alias for use in found}
    bound = {p.name.lower() for each in tree.find_all(exp.Lambda) for p in each.expressions}
    for word in _words(text):
        for name in (spelled(word, names.columns), spelled(word, list(names.references))):
            if name is not None and name not in seen and word.lower() not in bound:
                yield from names.resolve((name,), Way.TRANSFORMATION)


def _words(text: str) -> Iterator[str]:
    """Yield tokens that can name a column: no function, struct field, type or alias."""
    tokens = sqlglot.tokenize(text, dialect="spark")
    raw = [text[token.start : token.end + 1] for token in tokens]
    for number, piece in enumerate(raw):
        before = raw[number - 1].upper() if number else ""
        after = raw[number + 1] if number + 1 < len(raw) else ""
        is_name = _NAME.fullmatch(piece) and not piece[0].isdigit()
        if is_name and before not in (".", "AS") and not after.startswith(("(", "'")):
            yield piece[1:-1].replace("``", "`") if piece[0] == "`" else piece
