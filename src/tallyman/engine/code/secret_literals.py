"""Secrets in code: literal values whose name says that they are secret, found with a parser."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import yaml

from tallyman.engine.code.syntax import parsed
from tallyman.engine.spark.secrets import HIDDEN, SECRET

Pair = tuple[ast.AST | str | None, ast.AST | None]
"""A possible name and its value."""
_ANCHOR = re.compile(r"(?:&\S+\s+)?")


def without_literals(language: str, text: str) -> str:
    """Hide secret literals. Return the text unchanged if it cannot be parsed; then patterns must
    suffice."""
    try:
        if language == "YAML":
            return _without(text.encode("utf-32-le"), _in_yaml(text)).decode("utf-32-le")
        return _python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, yaml.YAMLError):
        return text


def _without(code: bytes, spans: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Replace spans from the last to the first, so that offsets stay valid; of two nested spans,
    the outer one."""
    begin = len(code) + 1
    for start, end, shown in sorted(set(spans), key=lambda one: (-one[1], one[0])):
        if end <= begin:
            code, begin = code[:start] + shown + code[end:], start
    return code


# ---- Python -------------------------------------------------------------------------------------


def _python(text: str) -> str:
    # A nested function is indented and does not parse alone.
    before = "if True:\n" if text[:1].isspace() else ""
    code = (before + text).encode()
    starts = [0]
    for line in code.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    hidden = {id(leaf): leaf for value in _values(parsed(code)) for leaf in _leaves(value)}
    spans = [
        (
            starts[leaf.lineno - 1] + leaf.col_offset,
            starts[(leaf.end_lineno or 0) - 1] + (leaf.end_col_offset or 0),
            f"'{HIDDEN}'".encode(),
        )
        for leaf in hidden.values()
    ]
    return _without(code, spans).decode()[len(before) :]


def _values(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        yield from (value for name, value in _pairs(node) if value and _says_secret(name))


def _pairs(node: ast.AST) -> Iterator[Pair]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            yield node.target, node.value
        case ast.keyword():
            yield node.arg, node.value
        case ast.Dict():
            yield from zip(node.keys, node.values, strict=True)
        case ast.Call():
            given = [*node.args, *(one.value for one in node.keywords)]
            yield from _neighbours(given)
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            yield from ((called, one) for one in given)
        case ast.Tuple() | ast.List():
            yield from _neighbours(node.elts)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]):
            named = isinstance(node.left, (ast.Name, ast.Attribute))
            yield node.left if named else None, node.comparators[0]
        case ast.arguments():
            plain = [*node.posonlyargs, *node.args]
            given = zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True)
            pairs = [*given, *zip(node.kwonlyargs, node.kw_defaults, strict=True)]
            yield from ((one.arg, default) for one, default in pairs)


def _neighbours(given: Sequence[ast.AST]) -> Iterator[Pair]:
    """Pair each string with the value after it: `("password", "x")`."""
    yield from ((a, b) for a, b in pairwise(given) if isinstance(a, (ast.Constant, ast.JoinedStr)))


def _says_secret(name: ast.AST | str | None) -> bool:
    """True if the name, its owner, or the key it is looked up by says that it is secret."""
    if name is None or isinstance(name, str):
        return bool(name and SECRET.search(name))
    texts = [
        getattr(each, "id", getattr(each, "attr", getattr(each, "value", None)))
        for each in ast.walk(name)
    ]
    # A text with spaces is not a name.
    return any(isinstance(p, str) and " " not in p and bool(SECRET.search(p)) for p in texts)


def _leaves(value: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the texts and numbers in a value, but not the key of a lookup."""
    match value:
        case ast.JoinedStr():
            yield value
        case ast.Constant(value=str() | bytes() | int() | float()):
            if not isinstance(value.value, bool):
                yield value
        case ast.Subscript(slice=ast.Constant()):
            yield from _leaves(value.value)
        case _:
            for child in ast.iter_child_nodes(value):
                yield from _leaves(child)


# ---- YAML ---------------------------------------------------------------------------------------


def _in_yaml(text: str) -> Iterator[tuple[int, int, bytes]]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for node in _scalars(root, False, set()) if root else ():
        start, end = node.start_mark.index, node.end_mark.index
        written = text[start:end]
        # Keep an anchor, which is used elsewhere, and the line breaks that end a block.
        before = _ANCHOR.match(written)
        rest = written[len(written.rstrip()) :]
        if before and written.strip():
            shown = f"{before.group()}'{HIDDEN}'{rest}"
            yield 4 * start, 4 * end, shown.encode("utf-32-le")


def _scalars(node: yaml.Node, secret: bool, seen: set[tuple[int, bool]]) -> Iterator[yaml.Node]:
    if (id(node), secret) in seen:
        return
    seen.add((id(node), secret))
    if isinstance(node, yaml.MappingNode):
        # `{name: PASSWORD, value: x}`
        names = [v.value for k, v in node.value if k.value in ("name", "key", "option")]
        named_secret = any(isinstance(name, str) and SECRET.search(name) for name in names)
        for key, value in node.value:
            named = isinstance(key.value, str) and bool(SECRET.search(key.value))
            yield from _scalars(
                value, secret or named or (named_secret and key.value == "value"), seen
            )
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _scalars(one, secret, seen)
    elif secret and node.tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"):
        yield node
