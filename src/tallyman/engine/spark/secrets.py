"""Patterns for secrets, by name or by form, shared by settings and code."""

from __future__ import annotations

import re

HIDDEN = "***"
SECRET = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|private|signature"
    # Short words count only if they stand alone: not passengers, design or sass.
    r"|(?<![a-z])(?:pass|pw|sas|sig)(?![a-z])|(?-i:(?<=[a-z])(?:Pass|Pw)(?![A-Za-z]))"
    r"|(?:access|account|api|auth|encryption|license|master|shared|signing|subscription)"
    # The length or the provider of a key is not a secret.
    r"[._-]?key(?!gen|length|provider|size)|auth[._-]?user[._-]?info",
    re.I,
)
NAME_INSIDE = rf"(?=[\w.-]*?(?:{SECRET.pattern}))[\w.-]++"
NAME = rf"(?<![\w.-]){NAME_INSIDE}"
_VALUE = r"""(?:\{[^}]*\}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^&;\s]*)"""
_ASSIGNED = re.compile(rf"""({NAME}(?:\\?["']?\s*+=|\\?["']\s*+:|:\s)\s*+){_VALUE}""", re.I)
_BEARER = re.compile(r"(?<![a-z])((?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.I)
_ORACLE = re.compile(r"(?<=jdbc:oracle:)(\w+:)[^@\s]\S*@", re.I)
_USER = re.compile(
    # A password may contain / and @: take all up to the last @, unless the colon begins a port.
    r"""(?<=://)(?:[^/\s:@'"]*:(?!\d+(?:[/,;?&\s]|$))(?:(?!://)[^\s'"])*|[^/\s'"]*)@"""
)


def without_users(text: str) -> str:
    """Hide user and password in addresses."""
    return _USER.sub(f"{HIDDEN}@", _ORACLE.sub(rf"\g<1>{HIDDEN}@", text))


def without_assigned(text: str) -> str:
    """Hide secret values in a text with assignments: a query of an address, options, JSON."""
    hidden = _ASSIGNED.sub(rf"\g<1>{HIDDEN}", text)
    return without_users(_BEARER.sub(rf"\g<1>{HIDDEN}", hidden))
