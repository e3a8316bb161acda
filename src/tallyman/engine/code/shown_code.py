"""Source code as people may see it: without the secrets in it.

One coarse rule instead of many exact ones: where a statement of Python, or a mapping or list of
YAML, names a secret, none of its constants is shown. Text that cannot be parsed is not shown.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import accumulate

import yaml

from tallyman.engine.spark.secrets import HIDDEN, SECRET, without_assigned, without_users

NAMES = ("STRING", "NAME", "FSTRING_MIDDLE", "TSTRING_MIDDLE")
BEGINS, ENDS = ("FSTRING_START", "TSTRING_START"), ("FSTRING_END", "TSTRING_END")
_COMMENT = re.compile(rf"#[^\n]*(?:{SECRET.pattern})[^\n]*", re.I)
_CONSTANT = re.compile(r"""['"\d]""")
_Span = tuple[int, int, bool]
"""Where a constant is, and whether it is hidden."""


@dataclass(frozen=True, slots=True)
class Code:
    language: str
    text: str


def shown_code(language: str, text: str) -> Code:
    """Hide secrets; of a text that cannot be parsed, everything."""
    try:
        found = _with(text, _in_yaml(text) if language == "YAML" else _in_python(text))
    except (SyntaxError, tokenize.TokenError, ValueError, RecursionError, yaml.YAMLError):
        found = HIDDEN
    return Code(language, without_users(_COMMENT.sub(f"# {HIDDEN}", found)))


def shown_expression(text: str) -> str:
    """Hide an expression that names a secret, if it contains a constant."""
    secret = SECRET.search(text) and _CONSTANT.search(text)
    return HIDDEN if secret else without_assigned(text)


def _with(text: str, spans: Iterable[_Span]) -> str:
    found: dict[tuple[int, int], bool] = {}
    for start, end, hidden in spans:
        found[start, end] = hidden or found.get((start, end), False)
    for (start, end), hidden in sorted(found.items(), reverse=True):
        shown = f"'{HIDDEN}'" if hidden else without_assigned(text[start:end])
        text = text[:start] + shown + text[end:]
    return text


def _in_python(text: str) -> Iterator[_Span]:
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    statement: list[tuple[int, int]] = []
    secret, depth, begin = False, 0, 0
    for found in tokenize.generate_tokens(StringIO(text).readline):
        kind = tokenize.tok_name[found.type]
        start, end = (starts[line - 1] + column for line, column in (found.start, found.end))
        secret |= kind in NAMES and SECRET.search(found.string) is not None
        if kind in BEGINS:
            begin = begin if depth else start
            depth += 1
        elif kind in ENDS:
            depth -= 1
            statement += [] if depth else [(begin, end)]
        elif kind in ("STRING", "NUMBER") and not depth:
            statement.append((start, end))
        elif kind in ("NEWLINE", "ENDMARKER"):
            yield from ((first, last, secret) for first, last in statement)
            statement.clear()
            secret = False
        elif kind == "ERRORTOKEN":
            raise SyntaxError


def _in_yaml(text: str) -> Iterator[_Span]:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for node, hidden in _scalars(root, False, set()) if root else ():
        end = len(text[: node.end_mark.index].rstrip())  # a block ends with line breaks
        if node.start_mark.index < end:
            yield node.start_mark.index, end, hidden


def _scalars(
    node: yaml.Node, hidden: bool, seen: set[tuple[int, bool]]
) -> Iterator[tuple[yaml.Node, bool]]:
    """Yield the values in a node; an anchor is followed from each place that names it."""
    if (id(node), hidden) in seen:
        return
    seen.add((id(node), hidden))
    if isinstance(node, yaml.ScalarNode):
        yield node, hidden
        return
    is_map = isinstance(node, yaml.MappingNode)
    pairs = node.value if is_map else [(each, each) for each in node.value]
    named = [_names_secret(key) for key, _ in pairs]
    here = any(named) or any(_names_secret(value) for _, value in pairs)
    for own, (_, value) in zip(named, pairs, strict=True):
        scalar = isinstance(value, yaml.ScalarNode)
        yield from _scalars(value, hidden or own or (here and scalar), seen)


def _names_secret(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and SECRET.search(node.value) is not None
