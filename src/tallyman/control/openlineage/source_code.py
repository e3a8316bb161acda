"""Source code of an asset and text of its errors for events, without secrets and values of rows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tallyman.control.openlineage.secret_literals import without_literals
from tallyman.domain.account.redaction import NUMBERS_ONLY
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.engine.plan.code_hash import YAML
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
_SPARK_CLASS = re.compile(r"\[([A-Z][A-Z_.]+)\]")


@dataclass(frozen=True, slots=True)
class Code:
    language: str
    text: str


def code_of_asset(asset: Asset, pipelines: Path) -> Code | None:
    """Return the asset's function, or the YAML file that declares it; None if neither can be
    read."""
    try:
        return shown_code("PYTHON", inspect.getsource(asset.function))
    except (OSError, TypeError):
        pass
    for path in sorted(p for p in pipelines.glob("*") if p.suffix in YAML):
        text = path.read_text(encoding="utf-8")
        if asset.name in _declared(text):
            return shown_code("YAML", text)
    return None


def _declared(text: str) -> set[str]:
    """Name the assets of a file. Compose it only: `{{NAME}}` cannot be the key of a dict."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    parts = root.value if isinstance(root, yaml.MappingNode) else []
    assets = [value for key, value in parts if key.value == "assets"]
    found = [part for part in assets if isinstance(part, yaml.MappingNode)]
    keys = [key for part in found for key, _ in part.value]
    return {key.value for key in keys if isinstance(key, yaml.ScalarNode)}


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


def message_of(error: Mapping[str, object], where: str) -> str:
    """Return message and hint of an error; if the message may contain values of rows, only its
    kind."""
    code, hint = str(error.get("code", "error")), str(error.get("hint") or "")
    message = str(error.get("message") or code)
    if code not in NUMBERS_ONLY:
        kind = _SPARK_CLASS.search(message)
        step = error.get("operation_order")
        at = "" if step is None else f" at step {step}"
        message = f"{where}: {code}{at}{f' [{kind.group(1)}]' if kind else ''}."
    return without_secrets(f"{message} {hint}".strip())
