"""SQL text of a Column, read from the tree that Spark Connect would send.

Such a Column is plain data: neither a session nor a JVM is needed. Only what has a text in Spark
SQL is written; the rest is refused with what to write instead. `tests/compiled/test_columns.py`
compares both forms of every function on Spark.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tallyman.engine.expressions.column_names import quoted
from tallyman.engine.expressions.literal_text import NoText, literal_text, type_text

Tree = Any
"""A `spark.connect.Expression`; its module is imported by whoever made the Column."""

_BINARY = frozenset(
    {"+", "-", "*", "/", "%", "<", ">", "<=", ">=", "<=>", "and", "or", "&", "|", "^"}
)
_OTHERWISE_NAMED = {"==": "=", "and": "AND", "or": "OR"}
_UNARY = {"~": "~", "not": "NOT ", "negative": "-", "!": "NOT "}
_AFTER = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL"}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that mean something else than a column if they stand alone or before an operator.
_NOT_A_NAME = frozenset(
    re.findall(
        r"\w+",
        """
        all and any array as asc between both by case cast cluster collate cross curdate
        current_catalog current_database current_date current_schema current_time current_timestamp
        current_user date day default desc distinct distribute div else end escape except exists
        extract false fetch filter first for from full grant group having hour identifier ilike in
        inner intersect interval into is join lambda last lateral leading left like limit localtime
        localtimestamp map minus minute month natural not now null nulls offset on only or order
        outer overlaps overlay percentile position primary qualify references regexp right rlike row
        rows second select semi session_user set some sort struct substr substring system table then
        time timestamp timestamp_ltz timestamp_ntz to trailing trim true try_cast union unique
        unknown user using values void when where window with within year
        """,
    )
)
PYTHON_FUNCTION = "a Python function is not part of a plan; write it with SQL functions"
_OF_UNIT = frozenset({"timestampadd", "timestampdiff"})
"""Functions whose first argument is a word of SQL, not a text."""
_WITHOUT_SQL = {
    "product": "write exp(sum(ln(x))) for positive numbers",
    "unwrap_udt": "a plan has no types of Python classes",
}
_ADVICE = {
    "common_inline_user_defined_function": PYTHON_FUNCTION,
    "update_fields": "withField, dropFields have no SQL; write named_struct(...) with all fields",
    "unresolved_regex": "colRegex has no SQL; name the columns",
    "subquery_expression": "a query reads data that the run has not pinned; join an input",
    "sort_order": "asc and desc belong into the order of a window",
    "typed_aggregate_expression": "write the aggregate with SQL functions",
}


def column_text(column: object, *, named: bool = False) -> str:
    """Return the SQL of a Column; NoText says why there is none. `named`: with its alias."""
    tree = getattr(column, "to_plan", None)
    if tree is None:
        raise NoText(
            f"expected SQL text or a Column, found {type(column).__name__}"
            if not _is_local(column)
            else "the Column was made by a local session; write it as SQL text"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark's advice about windows is for queries
            plan = tree(None)
        return _Text().top(plan, named=named)
    except RecursionError:
        raise NoText("the expression is nested too deeply; make it several columns") from None


def _is_local(column: object) -> bool:
    return type(column).__module__.startswith("pyspark.sql.classic")


def name_text(identifier: str) -> str:
    """Write the name of a column or field as Spark reads it: dots separate, backticks quote."""
    parts = re.findall(r"`(?:[^`]|``)*`|[^.`]+", identifier)
    if not parts or ".".join(parts) != identifier:
        raise NoText(f"{identifier!r} is not the name of a column")
    return ".".join(map(_part_text, parts))


def _part_text(part: str) -> str:
    plain = part[1:-1].replace("``", "`") if part.startswith("`") else part
    is_plain = _WORD.fullmatch(plain) and plain.lower() not in _NOT_A_NAME
    return plain if is_plain else quoted(plain)


class _Text:
    """The writer of one expression. Parameters of lambdas are renamed in the order they are met:
    PySpark numbers them by how many it has made before."""

    def __init__(self) -> None:
        self._parameters: dict[str, str] = {}

    def top(self, tree: Tree, *, named: bool) -> str:
        kind = tree.WhichOneof("expr_type")
        if kind == "alias":
            if len(tree.alias.name) != 1 or tree.alias.metadata:
                raise NoText("an alias is one name, without metadata")
            value = self.top(tree.alias.expr, named=False)
            return f"{value} AS {_part_text(tree.alias.name[0])}" if named else value
        if kind == "expression_string":
            return str(tree.expression_string.expression)
        return _without_parentheses(self._write(tree))

    def _write(self, tree: Tree) -> str:
        kind = tree.WhichOneof("expr_type")
        writer = _WRITERS.get(kind)
        if writer is None:
            raise NoText(_ADVICE.get(kind, f"{kind} has no SQL; write the expression as text"))
        return writer(self, getattr(tree, kind))

    def _list(self, trees: Sequence[Tree]) -> str:
        return ", ".join(map(self._write, trees))

    def _attribute(self, tree: Tree) -> str:
        if tree.is_metadata_column:
            raise NoText("metadata columns depend on how files are read; use a column")
        return name_text(tree.unparsed_identifier)

    def _star(self, tree: Tree) -> str:
        target = tree.unparsed_target
        return f"{name_text(target.removesuffix('.*'))}.*" if target else "*"

    def _expression(self, tree: Tree) -> str:
        # Break the line: a comment at the end must not swallow the parenthesis.
        text = tree.expression
        return f"({text}\n)" if "--" in text else f"({text})"

    def _alias(self, tree: Tree) -> str:
        return self._write(tree.expr)

    def _field(self, tree: Tree) -> str:
        """Write a field of a struct: its alias is its name."""
        if tree.WhichOneof("expr_type") != "alias":
            return self._write(tree)
        return f"{self._write(tree.alias.expr)} AS {_part_text(tree.alias.name[0])}"

    def _cast(self, tree: Tree) -> str:
        word = "TRY_CAST" if tree.eval_mode == tree.EVAL_MODE_TRY else "CAST"
        kind = tree.type_str or type_text(tree.type)
        return f"{word}({self._write(tree.expr)} AS {kind})"

    def _extract(self, tree: Tree) -> str:
        return f"{self._write(tree.child)}[{self._write(tree.extraction)}]"

    def _lambda(self, tree: Tree) -> str:
        names = [self._parameter(argument) for argument in tree.arguments]
        heads = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{heads} -> {self._write(tree.function)}"

    def _parameter(self, tree: Tree) -> str:
        name = ".".join(tree.name_parts)
        return self._parameters.setdefault(name, f"_p{len(self._parameters) + 1}")

    def _named_argument(self, tree: Tree) -> str:
        return f"{tree.key} => {self._write(tree.value)}"

    def _call(self, tree: Tree) -> str:
        return f"{name_text(tree.function_name)}({self._list(tree.arguments)})"

    def _function(self, tree: Tree) -> str:
        name, arguments = tree.function_name, list(tree.arguments)
        if (name in _BINARY and len(arguments) == 2) or name == "==":
            left, right = map(self._write, arguments)
            return f"({left} {_OTHERWISE_NAMED.get(name, name)} {right})"
        if name in _UNARY and len(arguments) == 1:
            return f"({_UNARY[name]}{self._write(arguments[0])})"
        if name in _AFTER:
            return f"({self._write(arguments[0])} {_AFTER[name]})"
        if name == "in":
            return self._in(arguments)
        if name == "when":
            return self._case(arguments)
        if name in _OF_UNIT and arguments:
            unit, *rest = arguments
            return f"{name}({unit.literal.string}, {self._list(rest)})"
        if name in _WITHOUT_SQL or not _WORD.fullmatch(name) or tree.is_internal:
            advice = _WITHOUT_SQL.get(name, "write the expression as text")
            raise NoText(f"{name} has no SQL; {advice}")
        if name == "struct":
            return f"struct({', '.join(map(self._field, arguments))})"
        distinct = "DISTINCT " if tree.is_distinct else ""
        return f"{name}({distinct}{self._list(arguments)})"

    def _in(self, arguments: Sequence[Tree]) -> str:
        if len(arguments) < 2:
            raise NoText("isin() of nothing has no SQL; write false")
        return f"({self._write(arguments[0])} IN ({self._list(arguments[1:])}))"

    def _case(self, arguments: Sequence[Tree]) -> str:
        written = [self._write(each) for each in arguments]
        pairs = zip(written[::2], written[1::2], strict=False)
        cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        last = f" ELSE {written[-1]}" if len(written) % 2 else ""
        return f"CASE {cases}{last} END"

    def _window(self, tree: Tree) -> str:
        parts = []
        if tree.partition_spec:
            parts.append(f"PARTITION BY {self._list(tree.partition_spec)}")
        if tree.order_spec:
            parts.append("ORDER BY " + ", ".join(map(self._order, tree.order_spec)))
        if tree.HasField("frame_spec"):
            parts.append(self._frame(tree.frame_spec))
        return f"{self._write(tree.window_function)} OVER ({' '.join(parts)})"

    def _order(self, tree: Tree) -> str:
        down = tree.direction == tree.SORT_DIRECTION_DESCENDING
        first = tree.null_ordering == tree.SORT_NULLS_FIRST
        direction, nulls = "DESC" if down else "ASC", "FIRST" if first else "LAST"
        return f"{self._write(tree.child)} {direction} NULLS {nulls}"

    def _frame(self, tree: Tree) -> str:
        kind = "ROWS" if tree.frame_type == tree.FRAME_TYPE_ROW else "RANGE"
        ends = self._boundary(tree.lower, "PRECEDING"), self._boundary(tree.upper, "FOLLOWING")
        return f"{kind} BETWEEN {ends[0]} AND {ends[1]}"

    def _boundary(self, tree: Tree, side: str) -> str:
        if tree.current_row:
            return "CURRENT ROW"
        if tree.unbounded:
            return f"UNBOUNDED {side}"
        literal = tree.value.literal
        number = getattr(literal, literal.WhichOneof("literal_type") or "integer")
        if not isinstance(number, int):
            raise NoText("the frame of a window has whole numbers")
        return f"{abs(number)} {'PRECEDING' if number < 0 else 'FOLLOWING'}"


_WRITERS: Mapping[str, Callable[[_Text, Tree], str]] = {
    "literal": lambda text, tree: literal_text(tree),
    "unresolved_attribute": _Text._attribute,
    "unresolved_star": _Text._star,
    "unresolved_function": _Text._function,
    "expression_string": _Text._expression,
    "alias": _Text._alias,
    "cast": _Text._cast,
    "unresolved_extract_value": _Text._extract,
    "lambda_function": _Text._lambda,
    "unresolved_named_lambda_variable": _Text._parameter,
    "named_argument_expression": _Text._named_argument,
    "call_function": _Text._call,
    "window": _Text._window,
}


def _without_parentheses(text: str) -> str:
    """Take off the parentheses around the whole expression."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth, within = 0, ""
    position = 0
    while position < len(text):
        character = text[position]
        if within:
            if character == "\\" and within == "'":
                position += 1
            elif character == within:
                within = ""
        elif character in "'`\"":
            within = character
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0 and position < len(text) - 1:
                return text
        position += 1
    return text[1:-1]
