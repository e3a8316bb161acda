"""The meaning of a definition as one hash, equal only if nothing but formatting differs.

A hash that differs without need costs a rebuild; a hash that is equal by mistake serves wrong data.
So texts are compared as written wherever it is doubtful that they mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.canonical_json import canonical
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames, is_traced, next_number
from tallyman.domain.definition.step_facts import Lookup, On, Step
from tallyman.domain.pipeline.pipeline import Asset, Source
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.plan.plain import join_pairs, shares_names
from tallyman.errors import UsageError

FORMAT = 1
"""The version of the hash; raise it if earlier hashes must no longer match."""

# The gap between two tokens, as far as Spark's lexer and sqlglot's agree. They disagree on comments
# that are nested or continued by a backslash, and on a lone carriage return that ends one.
_GAP = re.compile(
    r"(?:[ \t\r\n]|--[^\r\n\\]*(?:\r?\n|\Z)|/\*(?!\+)(?:(?!/\*|\*/).)*\*/)*", re.DOTALL
)
_QUOTES = frozenset("'\"`")
_GLUED = re.compile(r"[\w'\"`]{2}")
_WORD = re.compile(r"\w+")
_BINARY = frozenset({"AND", "OR", "IS", "IN", "LIKE", "RLIKE", "BETWEEN", "AS"})
_NAME_OR_OPERATOR = frozenset({"NOT", "DIV", "ILIKE", "REGEXP", "ESCAPE", "DISTINCT", "FROM"})
_NEGATED = frozenset({"IN", "LIKE", "RLIKE", "BETWEEN"})
_BEFORE_NOT = frozenset({"", "(", ",", "IS", "AND", "OR", "NOT", "WHEN", "THEN", "ELSE"})
_OF_CASE = frozenset({"CASE", "WHEN", "THEN", "ELSE", "END"})
_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE"})
_OPENING = frozenset("(-+~!")


def definition_hash(
    plan: Frame,
    *,
    asset: Asset,
    sources: Mapping[str, Source],
    evidence: Evidence | str,
    thresholds: Thresholds | None,
) -> str:
    """Hash everything that decides a result, except data."""
    read = {name: sources[name] for name in {f.input for f in frames(plan)} if name in sources}
    writer = _Writer(as_written=_has_odd_names(plan, list(read.values())))
    tree = writer.frame(plan)
    split = asset.partitioned_by
    whole = canonical(
        {
            "format": FORMAT,
            "append": [asset.unique_key] if asset.update_strategy == "append" else None,
            "unique": asset.unique or not asset.key,
            "trace": is_traced(asset.trace, plan),
            "plan": tree,
            "key": asset.key,
            "partitioned_by": None if split is None else [split.column, split.kind],
            "sources": {name: _source(source) for name, source in read.items()},
            "evidence": str(evidence),
            "thresholds": None if thresholds is None else thresholds.to_json(),
        }
    )
    return sha256(whole.encode()).hexdigest()


class _Writer:
    """A writer of a plan as plain values."""

    def __init__(self, *, as_written: bool) -> None:
        self.as_written = as_written

    def frame(self, frame: Frame) -> dict[str, object]:
        steps: list[object] = []
        last = 0
        for step in frame.steps():
            usual = next_number(last)
            steps.append(self._step(step, usual))
            last = max(last, usual if step.seq is None else step.seq)
        return {"input": frame.input, "steps": steps}

    def _step(self, step: Step, usual: int) -> dict[str, object]:
        # Take all fields, so that a field added to a step later counts automatically. Leave out a
        # number that the step would have anyway, so that it does not matter who gave it.
        return {"kind": step.kind} | {
            field.name: self._field(step, field.name, getattr(step, field.name))
            for field in fields(step)
            if field.name != "seq" or step.seq not in (None, usual)
        }

    def _field(self, step: Step, name: str, value: Any) -> object:
        if isinstance(value, Frame):
            return self.frame(value)
        if name == "on":
            return self._on(value)
        if isinstance(value, tuple):
            return [self._item(each, holds=name in step.holds) for each in value]
        return value if value is None or name not in step.holds else self._expression(value)

    def _item(self, item: Any, *, holds: bool) -> object:
        """Write one of several: a lookup, an expression, a name with its expression, or a plain
        value.
        """
        if isinstance(item, Lookup):
            return self._lookup(item)
        if not holds:
            return item
        if isinstance(item, tuple):
            return [item[0], self._expression(item[1])]
        return self._expression(item)

    def _lookup(self, lookup: Lookup) -> dict[str, object]:
        on = self._on(lookup.on)
        return {"alias": lookup.alias, "other": self.frame(lookup.other), "on": on}

    def _expression(self, given: str) -> object:
        return {"text": given} if self.as_written else sql(given)

    def _on(self, given: On) -> object:
        """Write a join's condition. It is not SQL: the engine reads pairs of names from it."""
        if not isinstance(given, str):
            return [self._on(each) for each in given]
        try:
            return {"pairs": join_pairs(given, (), ()), "by_name": shares_names(given)}
        except UsageError:
            return {"text": given}


def sql(text: str) -> object:
    """Write an expression without its formatting."""
    pieces = _pieces(text)
    # A text that equals the name of a column means that column: `null` may be one, ` null` is not.
    if pieces is None or len(pieces) == 1:
        return {"text": text}
    return {"sql": _with_keywords(pieces)}


def ddl(text: str) -> object:
    """Write a schema without its formatting: types in lower case, names unchanged."""
    pieces = _pieces(text)
    return {"text": text} if pieces is None else {"ddl": _with_types(pieces)}


def _pieces(text: str) -> list[str] | None:
    """Split into tokens as written; None if Spark might split the text differently."""
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except SqlglotError:
        return None
    pieces: list[str] = []
    end = 0
    for token in tokens:
        if token.start < end:
            continue  # sqlglot makes three tokens of `1L`, all at one position
        gap, piece = text[end : token.start], text[token.start : token.end + 1]
        if not _GAP.fullmatch(gap):
            return None
        # 'a''b' is a string with a quote in it, 'a' 'b' is the string ab.
        if pieces and not gap and _GLUED.fullmatch(pieces[-1][-1] + piece[0]):
            pieces[-1] += piece
        else:
            pieces.append(piece)
        end = token.end + 1
    return pieces if pieces and _GAP.fullmatch(text[end:]) else None


def _with_keywords(pieces: Sequence[str]) -> list[str]:
    """Write keywords in upper case where they cannot be names: Spark allows a column named
    `end`.
    """
    words = [piece.upper() for piece in pieces]
    has_cases = 0 < words.count("CASE") == words.count("END") <= words.count("WHEN")
    written: list[str] = []
    operand: bool | None = False  # True if an operand ends here, so that an operator may follow
    for word, piece, after in zip(words, pieces, [*words[1:], ""], strict=True):
        before = written[-1] if written else ""
        if (has_cases or word not in _OF_CASE) and _is_keyword(word, before, after, operand):
            operand = word == "END" or word in _CONSTANTS or (word == "NOT" and after in _NEGATED)
            written.append(word)
        else:
            ends = piece[0].isalnum() or piece[0] == "_" or piece[-1] in ")]'\"`"
            operand = None if word in _NAME_OR_OPERATOR else ends
            written.append(piece)
    return written


def _is_keyword(word: str, before: str, after: str, operand: bool | None) -> bool:
    if operand is None or "." in (before, after) or before.upper() == "AS":
        return False
    goes_on = after in _OPENING or (after != "" and (after[0].isalnum() or after[0] in "_'\"`"))
    if word == "NOT":
        may_begin = before in _BEFORE_NOT and goes_on and after not in _BINARY
        return after in _NEGATED if operand else may_begin
    if word in _BINARY:
        return goes_on and operand
    if word in ("WHEN", "THEN", "ELSE"):
        return goes_on and (operand or before == "CASE")
    if word in ("CASE", "END"):
        return operand if word == "END" else goes_on and not operand
    is_constant = word in _CONSTANTS and before != "*" and after not in ("(", "->", "=>")
    return is_constant and not operand


def _with_types(pieces: Sequence[str]) -> list[str]:
    """Write all words except names in lower case. A name is first, or first after a comma of
    fields.
    """
    written: list[str] = []
    inside: list[str] = ["struct"]
    name_next = True
    for piece in pieces:
        quoted = bool(_QUOTES & set(piece))
        written.append(piece if name_next or quoted else piece.lower())
        if piece in ("<", "("):
            inside.append(written[-2].lower() if piece == "<" and len(written) > 1 else piece)
        elif piece in (">", ")") and len(inside) > 1:
            inside.pop()
        name_next = piece in ("<", ",") and inside[-1] == "struct"
    return written


def _has_odd_names(plan: Frame, sources: Sequence[Source]) -> bool:
    """True if a column may have a name that SQL reads as an expression, such as `(a + b)`.

    A text that equals the name means that column; with other formatting it does not.
    """
    for schema in (source.schema for source in sources if source.schema):
        pieces = _pieces(schema)
        if pieces is None or any("`" in p and not _WORD.fullmatch(p[1:-1]) for p in pieces):
            return True
    steps = (step for frame in frames(plan) for step in frame.steps())
    return not all(_WORD.fullmatch(name) for step in steps for name in _made_names(step))


def _made_names(step: Step) -> list[str]:
    """List all names a step makes, those of a select included."""
    values = [each.operand.value for each in step.assigns() if each.name is None]
    return [*step.made_names(), *map(_selected_name, values)]


def _selected_name(text: str) -> str:
    """Return the name of a selected expression, or its text if Spark makes the name up."""
    pieces = _pieces(text) or [text]
    if pieces == ["*"]:
        return "all_that_there_are"
    is_alias = len(pieces) > 2 and pieces[-2].upper() == "AS"
    is_path = all(piece == "." or _WORD.fullmatch(piece) for piece in pieces) and "." in pieces
    return pieces[-1] if is_alias or is_path else text.strip()


def _source(source: Source) -> dict[str, object]:
    # What is done about an empty or smaller input changes no result.
    named = (field.name for field in fields(source) if not field.name.startswith("on_"))
    written = {name: getattr(source, name) for name in named}
    schema = None if source.schema is None else ddl(source.schema)
    return written | {"options": dict(source.options), "schema": schema}
