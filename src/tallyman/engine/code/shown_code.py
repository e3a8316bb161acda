"""Source code as people may see it: without the secrets in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tallyman.engine.code.secret_literals import without_literals
from tallyman.engine.spark.secrets import (
    HIDDEN,
    NAME,
    NAME_INSIDE,
    SECRET,
    without_assigned,
    without_users,
)

_TEXT = (
    r"""[rbfu]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
)
_QUOTED_NAME = rf"""(["'])[^\s"']*(?:{SECRET.pattern})[^\s"']*\2"""
_BECOMES = r"(?:(?::\s*[\w.\[\] |]+)?=|[:=!]=?)"
_LITERAL = re.compile(
    rf"""((?:{_QUOTED_NAME}\s*+(?:,|\]?\s*+{_BECOMES})|{NAME}\s*+(?:{_BECOMES}|\())"""
    rf"""\s*+(?:\w++\s*+=\s*+)?\(?\s*+){_TEXT}(?:\s*+\+?\s*+{_TEXT})*""",
    re.I | re.S,
)
_KEY = rf"""["']?{NAME}["']?[ \t]*:"""
_BLOCK = re.compile(
    rf"""^(([ \t]*)(?:-[ \t]+)?{_KEY}[ \t]*[|>][^\n]*\n)(?:\2[ \t]+\S[^\n]*\n?|[ \t]*\n)+""",
    re.I | re.M,
)
_PLAIN = re.compile(rf"""^([ \t]*(?:-[ \t]*)?{_KEY}[ \t]*)(?![|>\[{{'"&*])(\S.*)$""", re.I | re.M)
_FLOW = re.compile(rf"""([{{,]\s*+{_KEY}[ \t]+)(?!['"\[{{])[^,}}\n]+""", re.I)
_IN_ADDRESS = re.compile(rf"""((?:[?&;]|-D){NAME_INSIDE}=)[^&;\s'"]+""", re.I)
_ANY_TEXT = re.compile(_TEXT, re.I | re.S)


@dataclass(frozen=True, slots=True)
class Code:
    language: str
    text: str


def shown_code(language: str, text: str) -> Code:
    """Hide secrets, first with the parser, then in comments and inside strings."""
    hidden = without_literals(language, text)
    return Code(language, without_secrets(hidden) if language == "YAML" else _in_code(hidden))


def without_secrets(text: str) -> str:
    """Hide values assigned to secret names, and users and passwords in addresses."""
    hidden = _BLOCK.sub(rf"\g<1>\g<2>  {HIDDEN}\n", _in_code(text))
    return _FLOW.sub(rf"\g<1>{HIDDEN}", _PLAIN.sub(rf"\g<1>{HIDDEN}", hidden))


def _in_code(text: str) -> str:
    hidden = _LITERAL.sub(rf"\g<1>'{HIDDEN}'", text)
    hidden = _ANY_TEXT.sub(lambda found: _inside(found.group()), hidden)
    return without_users(_IN_ADDRESS.sub(rf"\g<1>{HIDDEN}", hidden))


def _inside(literal: str) -> str:
    """Hide secrets inside a string literal, but keep its quotes."""
    prefix = len(literal) - len(literal.lstrip("rbfuRBFU"))
    width = 3 if literal[prefix : prefix + 3] in ('"' * 3, "'" * 3) else 1
    begin, end = prefix + width, len(literal) - width
    return literal[:begin] + without_assigned(literal[begin:end]) + literal[end:]
