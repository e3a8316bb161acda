"""The text of an asset as an event tells it, and of its errors: without secrets and rows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tallyman.domain.pipeline import Asset
from tallyman.engine.code_hash import YAML
from tallyman.engine.environment import HIDDEN, SECRET, USER_IN_ADDRESS

_NAME = rf"[\w.-]*(?:{SECRET.pattern}|(?:api|access)[_-]key)[\w.-]*"
_LITERAL = re.compile(rf"""(['"]?{_NAME}['"]?\s*[:=]\s*[rbf]?)('[^'\n]*'|"[^"\n]*")""", re.I)
_PLAIN = re.compile(rf"^(\s*(?:-\s*)?{_NAME}\s*:[ \t]*)(?![|>\[{{'\"&*])(\S.*)$", re.I | re.M)
_SPARK_CLASS = re.compile(r"\[([A-Z][A-Z_.]+)\]")

NUMBERS_ONLY = frozenset(
    {
        "canceled",
        "conflict",
        "dependency_not_ready",
        "empty_input",
        "input_changed",
        "input_missing",
        "interrupted",
        "not_run",
        "rows_outside_partition",
        "rows_unaccounted_for",
        "schema_changed",
        "storage_failed",
        "structural_error",
        "threshold_exceeded",
    }
)
"""Codes of errors whose text shows no values of rows: names and counts. Others may show a key, a
line, or what Spark stumbled over."""


@dataclass(frozen=True, slots=True)
class Code:
    language: str
    text: str


def code_of_asset(asset: Asset, pipelines: Path) -> Code | None:
    """The function, or the YAML file that declares it; None when neither can be read."""
    try:
        return Code("PYTHON", without_secrets(inspect.getsource(asset.function)))
    except (OSError, TypeError):
        pass
    for path in sorted(p for p in pipelines.glob("*") if p.suffix in YAML):
        text = path.read_text(encoding="utf-8")
        declared = yaml.safe_load(text)
        if isinstance(declared, dict) and asset.name in (declared.get("assets") or {}):
            return Code("YAML", without_secrets(text))
    return None


def without_secrets(text: str) -> str:
    """What is assigned to a name that says secret, and who somebody is in an address."""
    hidden = _LITERAL.sub(rf"\g<1>'{HIDDEN}'", text)
    return USER_IN_ADDRESS.sub(f"{HIDDEN}@", _PLAIN.sub(rf"\g<1>{HIDDEN}", hidden))


def message_of(error: Mapping[str, object], where: str) -> str:
    """What happened, and what to do; of what may show values only which kind of error it was."""
    code, hint = str(error.get("code", "error")), str(error.get("hint") or "")
    message = str(error.get("message") or code)
    if code not in NUMBERS_ONLY:
        kind = _SPARK_CLASS.search(message)
        step = error.get("operation_order")
        at = "" if step is None else f" at step {step}"
        message = f"{where}: {code}{at}{f' [{kind.group(1)}]' if kind else ''}."
    return without_secrets(f"{message} {hint}".strip())
