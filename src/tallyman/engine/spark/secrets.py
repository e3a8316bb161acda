"""What says secret, by its name or by its form: one pattern of names for settings and code."""

from __future__ import annotations

import re

HIDDEN = "***"
SECRET = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|private|signature"
    # Short words say it only when they stand alone: not passengers, design or sass.
    r"|(?<![a-z])(?:pass|pw|sas|sig)(?![a-z])|(?-i:(?<=[a-z])(?:Pass|Pw)(?![A-Za-z]))"
    r"|(?:access|account|api|auth|encryption|license|master|shared|signing|subscription)"
    # How long a key is, or who provides it, is none.
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
    # A password may hold / and @: all up to the last @ is taken, unless the colon is of a port.
    r"""(?<=://)(?:[^/\s:@'"]*:(?!\d+(?:[/,;?&\s]|$))(?:(?!://)[^\s'"])*|[^/\s'"]*)@"""
)


def without_users(text: str) -> str:
    """Who somebody is in an address, and how it is proved."""
    return _USER.sub(f"{HIDDEN}@", _ORACLE.sub(rf"\g<1>{HIDDEN}@", text))


def without_assigned(text: str) -> str:
    """A text in which names have values: a query of an address, options, JSON."""
    hidden = _ASSIGNED.sub(rf"\g<1>{HIDDEN}", text)
    return without_users(_BEARER.sub(rf"\g<1>{HIDDEN}", hidden))
